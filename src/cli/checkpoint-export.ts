/** `shunya checkpoint export`: a checkpoint's weights for others to load. */
import { existsSync } from "node:fs";
import { adapterShapes, writeAdapterFolder } from "../checkpoint/adapter-folder.ts";
import { tensorNamesOf } from "../checkpoint/architectures.ts";
import { checkBase, openBase, statesWith } from "../checkpoint/base-weights.ts";
import { type ExportSource, exportModel, refuseModel, valuesIn, weightsIn } from "../checkpoint/export-model.ts";
import { findTraining } from "../checkpoint/find-training.ts";
import { mergedModel } from "../checkpoint/merge-adapter.ts";
import type { Manifest } from "../checkpoint/training-manifest.ts";
import { defaultFormat, type WeightType } from "../checkpoint/weight-names.ts";
import type { LoraConfig } from "../config/types.ts";
import { CheckpointError, UsageError } from "../errors/errors.ts";
import type { Logger } from "../log/logger.ts";
import { isAdapter } from "../nn/lora.ts";
import type { ModelConfig } from "../nn/models/models.ts";
import { formatBytes, formatMany } from "../report/numbers.ts";
import { byteTokenizer, openTokenizer, type Tokenizer } from "../tokenizer/tokenizer.ts";
import { openModel } from "./job.ts";
import { checkTokenizerThere, copyTokenizer } from "./tokenizer-files.ts";

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
  const model = named?.config ?? modelOf(folder, manifest);
  const lora = savedLora(manifest);
  checkModel(folder, manifest, model, lora);
  const tokenizer = await savedTokenizer(manifest, logger);
  if (tokenizer) checkTokenizerThere(request.output, tokenizer, false);
  if (lora && !request.merge) {
    await exportAdapter(request, { config: model, lora, manifest, saved: weightsIn(checkpoint) });
    if (tokenizer) await copyTokenizer(tokenizer, request.output);
    return;
  }
  await using base = await openBase(checkpoint, named?.weights);
  const whole = { folder, manifest, states: statesWith(checkpoint, base) };
  await checkBase(whole);
  const saved = weightsIn(whole);
  const source = lora ? mergedModel(model, lora, saved.read) : saved;
  const format = { dtype: request.dtype, maxShardBytes: request.maxShardSize ?? defaultFormat.maxShardBytes };
  const { files, bytes } = await exportModel(source, model, request.output, format);
  if (tokenizer) await copyTokenizer(tokenizer, request.output);
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

/** Of a checkpoint that `train` wrote; its other settings are not looked at. */
function savedLora({ config }: Pick<Manifest, "config">): LoraConfig | undefined {
  const lora = config.lora as unknown as LoraConfig | null | undefined;
  return typeof lora === "object" && Number.isInteger(lora?.rank) ? (lora ?? undefined) : undefined;
}

/** The model that `train` keeps; a program of a user's own may have kept anything under that name. */
export function savedModel({ run }: Pick<Manifest, "run">): ModelConfig | undefined {
  const model = run.model as unknown as ModelConfig | null | undefined;
  const isModel = typeof model === "object" && Number.isInteger(model?.layers) && Number.isInteger(model?.hidden);
  return isModel ? (model ?? undefined) : undefined;
}

function modelOf(folder: string, manifest: Manifest): ModelConfig {
  const model = savedModel(manifest);
  if (model) return model;
  throw new UsageError(`${folder} does not say of what model it is; give --model`);
}

export async function configOf(model: string): Promise<ModelConfig> {
  await using opened = await openModel(model);
  return opened.config;
}

/** @throws CheckpointError where the tensors are not the model's */
export function checkModel(
  folder: string,
  { tensors }: Pick<Manifest, "tensors">,
  model: ModelConfig,
  lora?: LoraConfig,
): void {
  const shapes = new Map([...tensorNamesOf(model).shapes, ...(lora ? adapterShapes(model, lora, folder) : [])]);
  const problems = [...shapes].flatMap(([name, wanted]) => {
    const found = tensors[name]?.shape;
    if (found?.join() === wanted.join()) return [];
    return [`tensor ${name}: found ${found ? `[${found.join(", ")}]` : "nothing"}; wanted [${wanted.join(", ")}]`];
  });
  for (const name of Object.keys(tensors)) if (!shapes.has(name)) problems.push(`tensor ${name}: not in the model`);
  if (problems.length === 0) return;
  if (problems.length > 5) problems.splice(5, problems.length, `and ${problems.length - 5} more`);
  throw new CheckpointError(`${folder} is no checkpoint of this model:\n  ${problems.join("\n  ")}`);
}
