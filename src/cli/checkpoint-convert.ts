/** `shunya checkpoint convert`: from DeepSpeed's checkpoints to ours. */
import { tensorNamesOf } from "../checkpoint/architectures.ts";
import { convertTraining, elementsIn } from "../checkpoint/convert-training.ts";
import { type ForeignCheckpoint, readDeepSpeed } from "../checkpoint/deepspeed-read.ts";
import { canonicalName } from "../checkpoint/gpt2-tensors.ts";
import { checkModel } from "../checkpoint/saved-model.ts";
import type { JsonObject } from "../checkpoint/training-manifest.ts";
import { parseConfigObject } from "../config/json.ts";
import { resolveConfig } from "../config/resolve.ts";
import type { ResolvedConfig } from "../config/types.ts";
import { ConfigError } from "../errors/errors.ts";
import type { Logger } from "../log/logger.ts";
import type { ModelConfig } from "../nn/models/models.ts";
import { formatBytes, formatCount, formatMany } from "../report/numbers.ts";
import { wrap } from "../report/wrap.ts";
import { configOf } from "./checkpoint-export.ts";

export interface ConvertRequest {
  readonly from: string;
  readonly output: string;
  /** Checked against the tensors, and kept for runs that go on without --model. */
  readonly model?: string;
}

/** What `shunya train` has where --seed is left out; DeepSpeed keeps none. */
const seed = 42;

/** @throws CheckpointError, ModelError */
export async function runConvert({ from, output, model }: ConvertRequest, logger: Logger): Promise<void> {
  await using source = await readDeepSpeed(from);
  const modelConfig = model === undefined ? undefined : await configOf(model);
  const rename = renaming(source, modelConfig);
  if (modelConfig) {
    const tensors = [...source.tensors].map(
      ([name, { shape, trainable }]) => [rename(name), { shape, trainable, dtype: "f32" as const }] as const,
    );
    checkModel(source.folder, { tensors: Object.fromEntries(tensors) }, modelConfig);
  }
  const { progress, version, stage, worldSize, kinds } = source;
  const run: JsonObject = {
    ...(modelConfig && { model: modelConfig as unknown as JsonObject }),
    from: { engine: "DeepSpeed", version, stage, worldSize },
  };
  const config = configOfRun(source, logger);
  const { folder, bytes } = await convertTraining(source, { folder: output, rename, config, run, seed });
  const skipped = progress.attempted - progress.updates;
  process.stdout.write(
    `${wrap(
      `Step ${formatCount(progress.attempted)}${skipped > 0 ? ` (${formatCount(skipped)} skipped)` : ""} of a run of DeepSpeed ${version} at stage ${stage} on ` +
        `${formatMany(worldSize, "rank")}: ${formatMany(source.tensors.size, "tensor")} of ${formatMany(elementsIn(source), "element")}, ${kinds.join(", ")}.`,
    )}\nIt is in ${folder} (${formatBytes(bytes)}).\n`,
  );
}

/** Wrappers add `module.`; a bare network leaves its prefix out. What the model is known by, or GPT-2 by its first tensor, has it. */
function renaming({ tensors }: ForeignCheckpoint, model: ModelConfig | undefined): (name: string) => string {
  const plain = (name: string): string => name.replace(/^module\./, "");
  const isBareGpt2 = [...tensors.keys()].some((name) => plain(name) === "wte.weight");
  const canonical = model ? tensorNamesOf(model).canonical : isBareGpt2 ? canonicalName : (name: string) => name;
  return (name) => canonical(plain(name));
}

function configOfRun({ config, worldSize }: ForeignCheckpoint, logger: Logger): ResolvedConfig | undefined {
  try {
    return resolveConfig({ file: parseConfigObject(config, "the configuration in the checkpoint"), worldSize });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    logger.warn(`settings are not taken over, so none will be compared when a run goes on: ${error.message}`);
    return undefined;
  }
}
