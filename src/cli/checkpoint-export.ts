/** `shunya checkpoint export`: a checkpoint's weights for others to load. */
import { tensorNamesOf } from "../checkpoint/architectures.ts";
import { exportModel } from "../checkpoint/export-model.ts";
import { findTraining } from "../checkpoint/find-training.ts";
import type { Manifest } from "../checkpoint/training-manifest.ts";
import type { WeightType } from "../checkpoint/weight-names.ts";
import { CheckpointError, UsageError } from "../errors/errors.ts";
import type { Logger } from "../log/logger.ts";
import type { ModelConfig } from "../nn/models/models.ts";
import { formatBytes, formatMany } from "../report/numbers.ts";
import { openModel } from "./job.ts";

export interface ExportRequest {
  readonly folder: string;
  readonly output: string;
  readonly dtype: WeightType;
  readonly maxShardSize: number;
  /** Where the checkpoint does not say it. */
  readonly model?: string;
}

/** @throws CheckpointError, ModelError, UsageError */
export async function runExport(request: ExportRequest, logger: Logger): Promise<void> {
  const onDamaged = (text: string): void => logger.warn(`an older checkpoint is taken, since ${text}`);
  await using checkpoint = await findTraining(request.folder, { onDamaged });
  const { folder, manifest } = checkpoint;
  const model = request.model === undefined ? modelOf(folder, manifest) : await configOf(request.model);
  checkModel(folder, manifest, model);
  const format = { dtype: request.dtype, maxShardBytes: request.maxShardSize };
  const { files, bytes } = await exportModel(checkpoint, model, request.output, format);
  process.stdout.write(
    `The model of step ${manifest.step} is in ${request.output}: ${formatBytes(bytes)} of weights in ${request.dtype}, ` +
      `${formatMany(files.length, "file")}.\n`,
  );
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
export function checkModel(folder: string, { tensors }: Pick<Manifest, "tensors">, model: ModelConfig): void {
  const shapes = tensorNamesOf(model).shapes;
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
