/** `shunya checkpoint export`: a checkpoint's weights for others to load. */
import { existsSync } from "node:fs";
import { writeAdapterFolder } from "../checkpoint/adapter-folder.ts";
import { checkBase, openBase, statesWith } from "../checkpoint/base-weights.ts";
import { type ExportSource, exportModel, refuseModel, valuesIn, weightsIn } from "../checkpoint/export-model.ts";
import { findTraining } from "../checkpoint/find-training.ts";
import { mergedModel } from "../checkpoint/merge-adapter.ts";
import { checkModel, modelOf, savedGeneration, savedLora } from "../checkpoint/saved-model.ts";
import type { Manifest } from "../checkpoint/training-manifest.ts";
import { defaultFormat, type WeightType } from "../checkpoint/weight-names.ts";
import type { LoraConfig } from "../config/types.ts";
import type { Logger } from "../log/logger.ts";
import { isAdapter } from "../nn/lora.ts";
import type { ModelConfig } from "../nn/models/models.ts";
import { formatBytes, formatMany } from "../report/numbers.ts";
import { byteTokenizer, openTokenizer, type Tokenizer } from "../tokenizer/tokenizer.ts";
import { checkCompanionsThere, copyCompanions } from "./companion-files.ts";
import { openModel } from "./job.ts";

export interface ExportRequest {
  readonly folder: string;
  readonly output: string;
  readonly dtype: WeightType;
  readonly maxShardSize?: number;
  /** Of a run with LoRA: one model instead of the adapters. */
  readonly merge?: true;
  /** Where the checkpoint does not say it, or its base is elsewhere. */
  readonly model?: string;
}

/** @throws CheckpointError, ModelError, UsageError */
export async function runExport(request: ExportRequest, logger: Logger): Promise<void> {
  const onDamaged = (text: string): void => logger.warn(`an older checkpoint is taken, since ${text}`);
  await using checkpoint = await findTraining(request.folder, { onDamaged });
  const { folder, manifest } = checkpoint;
  await using named = request.model === undefined ? undefined : await openModel(request.model);
  const model = named?.config ?? modelOf(folder, manifest, "give --model");
  const lora = savedLora(manifest);
  checkModel(folder, manifest, model, lora);
  const companions = { tokenizer: await savedTokenizer(manifest, logger), generation: savedGeneration(manifest) };
  checkCompanionsThere(request.output, companions, false);
  if (lora && !request.merge) {
    await exportAdapter(request, { config: model, lora, manifest, saved: weightsIn(checkpoint) });
    await copyCompanions(companions, request.output);
    return;
  }
  await using base = await openBase(checkpoint, named?.weights);
  const whole = { folder, manifest, states: statesWith(checkpoint, base) };
  await checkBase(whole);
  const saved = weightsIn(whole);
  const source = lora ? mergedModel(model, lora, saved.read) : saved;
  const format = { dtype: request.dtype, maxShardBytes: request.maxShardSize ?? defaultFormat.maxShardBytes };
  const { files, bytes } = await exportModel(source, model, request.output, format);
  await copyCompanions(companions, request.output);
  process.stdout.write(
    `The model of step ${manifest.step} is in ${request.output}: ${formatBytes(bytes)} of weights in ${request.dtype}, ` +
      `${formatMany(files.length, "file")}.\n`,
  );
}

/** What the run of `train` made tokens with; undefined where the checkpoint does not say it, or it is gone. */
async function savedTokenizer({ run }: Pick<Manifest, "run">, logger: Logger): Promise<Tokenizer | undefined> {
  const { model, tokenizer } = run;
  if (tokenizer === undefined) return model === undefined ? undefined : byteTokenizer;
  if (typeof tokenizer === "string" && existsSync(tokenizer)) return openTokenizer(tokenizer);
  logger.warn(`the run's tokenizer ${tokenizer} is not there any more: put its tokenizer.json beside what is written`);
  return undefined;
}

interface SavedAdapter {
  readonly config: ModelConfig;
  readonly lora: LoraConfig;
  readonly manifest: Manifest;
  readonly saved: ExportSource;
}

async function exportAdapter(
  { output, dtype }: ExportRequest,
  { config, lora, manifest, saved }: SavedAdapter,
): Promise<void> {
  await refuseModel(output);
  const tensors = [...saved.tensors].flatMap(([name, shape]) => (isAdapter(name) ? [{ name, shape }] : []));
  const base = typeof manifest.run.base === "string" ? manifest.run.base : null;
  await writeAdapterFolder(output, { config, lora, base, dtype }, tensors, (tensor) => valuesIn(saved, tensor));
  process.stdout.write(
    `The adapters of step ${manifest.step} are in ${output}, in ${dtype}; --merge writes one model of them and theirs.\n`,
  );
}

export async function configOf(model: string): Promise<ModelConfig> {
  await using opened = await openModel(model);
  return opened.config;
}
