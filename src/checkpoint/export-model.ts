/** From a training checkpoint to a model folder. */
import { readdir } from "node:fs/promises";
import { ModelError } from "../errors/errors.ts";
import type { ModelConfig } from "../nn/models/models.ts";
import { elementsOf } from "../tensor/tensor.ts";
import { pieceElements } from "../zero/state.ts";
import type { TrainingCheckpoint } from "./open-training.ts";
import type { ModelFormat } from "./weight-names.ts";
import { type WrittenModel, writeModel } from "./write-model.ts";

/** Writes the master weights. @throws ModelError where the folder has a model already, or as `writeModel` */
export async function exportModel(
  { manifest, states }: TrainingCheckpoint,
  config: ModelConfig,
  folder: string,
  format: ModelFormat,
): Promise<WrittenModel> {
  await refuseModel(folder);
  const tensors = Object.entries(manifest.tensors).map(([name, { shape }]) => ({ name, shape }));
  const values = async function* ({ name, shape }: (typeof tensors)[number]): AsyncGenerator<Float32Array> {
    const elements = elementsOf(shape);
    for (let done = 0; done < elements; done += pieceElements)
      yield await states.read(name, "master", done, Math.min(pieceElements, elements - done));
  };
  return writeModel(folder, { config, tensors, values }, format);
}

/** Old weights beside new ones would be loaded in their place, or mixed with them. */
async function refuseModel(folder: string): Promise<void> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw new ModelError(`${folder} cannot be used: ${error.message}`, { cause: error });
  });
  const model = names.find((name) => name === "config.json" || /\.(safetensors|bin|index\.json)$/.test(name));
  if (model !== undefined)
    throw new ModelError(`${folder} has a model already (${model}); give another --output, or move that away`);
}
