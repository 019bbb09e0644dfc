/** The model of a training checkpoint: what it says of it, and its weights for whoever runs it. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { LoraConfig } from "../config/types.ts";
import { CheckpointError, UsageError } from "../errors/errors.ts";
import type { ModelConfig } from "../nn/models/models.ts";
import { adapterShapes } from "./adapter-folder.ts";
import { tensorNamesOf } from "./architectures.ts";
import { checkBase, withBaseTogether } from "./base-weights.ts";
import { publishedSteps } from "./checkpoint-folders.ts";
import { weightsIn } from "./export-model.ts";
import { type FindOptions, findTraining } from "./find-training.ts";
import type { ModelWeights } from "./huggingface.ts";
import { type Manifest, manifestName } from "./training-manifest.ts";
import { configName } from "./weight-names.ts";

export interface SavedModel extends AsyncDisposable {
  /** Of the checkpoint that was taken. */
  readonly folder: string;
  readonly manifest: Manifest;
  readonly config: ModelConfig;
  /** The adapters that the run trained; `weights` has them too. */
  readonly lora: LoraConfig | undefined;
  /** fp32 master weights. Damage that reading finds is a CheckpointError. */
  readonly weights: ModelWeights;
}

/** Whether a path that is no model folder is a checkpoint, or a folder of them. */
export async function holdsCheckpoint(path: string): Promise<boolean> {
  const isThere = async (name: string): Promise<boolean> =>
    (await stat(join(path, name)).catch(() => undefined)) !== undefined;
  if (await isThere(configName)) return false;
  if (await isThere(manifestName)) return true;
  return (await stat(path).catch(() => undefined))?.isDirectory() === true && (await publishedSteps(path)).length > 0;
}

/**
 * Opens a checkpoint as `findTraining` does, for the weights alone. Of a base that it names each rank reads a part, to compare it.
 * @throws CheckpointError; UsageError where it does not say of what model it is
 */
export async function openSavedModel(path: string, options: FindOptions): Promise<SavedModel> {
  const found = await findTraining(path, options);
  let checkpoint = found;
  try {
    const { group } = options;
    checkpoint = await withBaseTogether(group, found, undefined, (whole) =>
      checkBase(whole, group?.rank, group?.worldSize),
    );
    const { folder, manifest } = checkpoint;
    const config = modelOf(
      folder,
      manifest,
      "write a model folder with `shunya checkpoint export --model`, and give that",
    );
    const lora = savedLora(manifest);
    checkModel(folder, manifest, config, lora);
    const { tensors, read } = weightsIn(checkpoint);
    const shape = (name: string): readonly number[] => {
      const found = tensors.get(name);
      if (!found) throw new CheckpointError(`${folder} has no tensor ${name}`);
      return found;
    };
    const folderOf = (name: string) => checkpoint.states.folderOf?.(name);
    const weights: ModelWeights = { has: (name) => tensors.has(name), shape, read, folderOf };
    const close = () => checkpoint[Symbol.asyncDispose]();
    return { folder, manifest, config, lora, weights, [Symbol.asyncDispose]: close };
  } catch (error) {
    await checkpoint[Symbol.asyncDispose]();
    throw error;
  }
}

/** Of a checkpoint that `train` wrote; its other settings are not looked at. */
export function savedLora({ config }: Pick<Manifest, "config">): LoraConfig | undefined {
  const lora = config.lora as unknown as LoraConfig | null | undefined;
  return typeof lora === "object" && Number.isInteger(lora?.rank) ? (lora ?? undefined) : undefined;
}

/** The text of the generation_config.json that belongs to the model; undefined where it has none. */
export const savedGeneration = ({ run }: Pick<Manifest, "run">): string | undefined =>
  typeof run.generation === "string" ? run.generation : undefined;

/** The model that `train` keeps; a program of a user's own may have kept anything under that name. */
export function savedModel({ run }: Pick<Manifest, "run">): ModelConfig | undefined {
  const model = run.model as unknown as ModelConfig | null | undefined;
  const isModel = typeof model === "object" && Number.isInteger(model?.layers) && Number.isInteger(model?.hidden);
  return isModel ? (model ?? undefined) : undefined;
}

/** @param advice what to do where it is not said @throws UsageError */
export function modelOf(folder: string, manifest: Manifest, advice: string): ModelConfig {
  const model = savedModel(manifest);
  if (model) return model;
  throw new UsageError(`${folder} does not say of what model it is; ${advice}`);
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
