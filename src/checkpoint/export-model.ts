/** From weights, a training checkpoint's or merged ones, to a model folder. */
import { readdir } from "node:fs/promises";
import { ModelError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import type { ModelConfig } from "../nn/models/models.ts";
import { elementsOf } from "../tensor/tensor.ts";
import { pieceElements } from "../zero/state.ts";
import type { TrainingCheckpoint } from "./open-training.ts";
import type { ModelFormat } from "./weight-names.ts";
import { type ModelTensor, type WrittenModel, writeModel } from "./write-model.ts";

export interface ExportSource {
  /** Name to shape, in the order of the files. */
  readonly tensors: ReadonlyMap<string, readonly number[]>;
  /** fp32 values of elements [first, first + count) of a tensor. */
  read(name: string, first: number, count: number): Promise<Float32Array>;
}

/** The master weights of a checkpoint. */
export const weightsIn = ({ manifest, states }: Pick<TrainingCheckpoint, "manifest" | "states">): ExportSource => ({
  tensors: new Map(Object.entries(manifest.tensors).map(([name, { shape }]) => [name, shape])),
  read: async (name, first, count) => {
    const values = new Float32Array(count);
    await states.read(name, "master", first, values);
    return values;
  },
});

/** @throws ModelError where the folder has a model already, or as `writeModel` */
export async function exportModel(
  source: ExportSource,
  config: ModelConfig,
  folder: string,
  format: ModelFormat,
): Promise<WrittenModel> {
  await refuseModel(folder);
  const tensors = [...source.tensors].map(([name, shape]) => ({ name, shape }));
  return writeModel(folder, { config, tensors, values: (tensor) => valuesIn(source, tensor) }, format);
}

/** All values of a tensor, in pieces. */
export async function* valuesIn(source: ExportSource, { name, shape }: ModelTensor): AsyncGenerator<Float32Array> {
  const elements = elementsOf(shape);
  for (let done = 0; done < elements; done += pieceElements)
    yield await source.read(name, done, Math.min(pieceElements, elements - done));
}

/** Old weights beside new ones would be loaded in their place, or mixed with them. */
export async function refuseModel(folder: string): Promise<void> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw new ModelError(`${folder} cannot be used: ${reasonOf(error)}`, { cause: error });
  });
  const model = names.find((name) => name === "config.json" || /\.(safetensors|bin|index\.json)$/.test(name));
  if (model !== undefined)
    throw new ModelError(`${folder} has a model already (${model}); give another --output, or move that away`);
}
