/** A state dict that PyTorch saved (pytorch_model.bin): tensors by name. */
import { InternalError, ModelError } from "../errors/errors.ts";
import { shownName } from "./pickle-bytes.ts";
import { describeValue, isMap } from "./pickle-values.ts";
import { openTorchArchive, type TorchArchive } from "./torch-archive.ts";
import { TorchTensor } from "./torch-globals.ts";
import type { WeightFile } from "./weight-file.ts";

/** @throws ModelError where the file holds anything but tensors by name */
export async function openTorchWeights(path: string): Promise<WeightFile> {
  const archive = await openTorchArchive(path);
  try {
    return weightsOf(archive, tensorsOf(path, archive.value));
  } catch (error) {
    await archive.close();
    throw error;
  }
}

function weightsOf(archive: TorchArchive, found: ReadonlyMap<string, TorchTensor>): WeightFile {
  const { path } = archive;
  return {
    path,
    tensors: new Map([...found].map(([name, { shape, storage }]) => [name, { shape, dtype: storage.type }])),
    readFloat32: async (name, firstElement, count) => {
      const tensor = found.get(name);
      if (tensor === undefined) throw new ModelError(`${path}: no tensor ${name}`);
      if (firstElement < 0 || count < 0 || firstElement + count > tensor.elements)
        throw new InternalError(
          `elements ${firstElement} to ${firstElement + count} of tensor ${name} with ${tensor.elements}`,
        );
      return archive.readFloat32(tensor, firstElement, count);
    },
    close: () => archive.close(),
  };
}

/** The tensors of a value that should be a state dict. @param path how errors name it @throws ModelError */
export function tensorsOf(path: string, value: unknown): Map<string, TorchTensor> {
  if (!isMap(value)) throw new ModelError(`${path}: found ${describeValue(value)}; wanted a dict of tensors`);
  const tensors = new Map<string, TorchTensor>();
  for (const [name, tensor] of value) {
    if (typeof name !== "string" || !(tensor instanceof TorchTensor))
      throw new ModelError(
        `${path}: found ${describeValue(tensor)} under ${describeValue(name)}; wanted tensors alone, as state_dict() gives them: ` +
          "is it a checkpoint of a training run?",
      );
    tensors.set(name, tensor);
  }
  if (tensors.size === 0) throw new ModelError(`${shownName(path)}: found an empty dict; wanted tensors by name`);
  return tensors;
}
