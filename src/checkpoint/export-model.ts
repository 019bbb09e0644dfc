/** From a training checkpoint to a model folder in Hugging Face's layout: the master weights, in one file or in shards with an index. */
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { type FloatType, floatBytes, fromFloat32 } from "../device/halves.ts";
import { ModelError } from "../errors/errors.ts";
import { elementsOf } from "../tensor/tensor.ts";
import { pieceElements } from "../zero/state.ts";
import { writeAtomically } from "./atomic-file.ts";
import type { TrainingCheckpoint } from "./open-training.ts";
import { type NewTensor, writeSafetensors } from "./safetensors-writer.ts";

export interface ExportOptions {
  readonly folder: string;
  /** The text of config.json. */
  readonly config: string;
  readonly dtype: FloatType;
  /** Of a file's tensors; one that is larger has a file of its own. */
  readonly mostShardBytes: number;
}

export interface Exported {
  /** Of weights, in order. */
  readonly files: readonly string[];
  /** Of all tensors. */
  readonly bytes: number;
}

const weightsName = "model.safetensors";

/**
 * Writes the weights, the index if there are several files, and last config.json, without which it is no model folder. Holds a few
 * pieces of a tensor in memory at a time.
 * @throws ModelError where the folder has a model already, cannot be written, or a value is beyond what fp16 holds
 */
export async function exportModel(
  { manifest, states }: TrainingCheckpoint,
  { folder, config, dtype, mostShardBytes }: ExportOptions,
): Promise<Exported> {
  await refuseModel(folder);
  await mkdir(folder, { recursive: true }).catch((error: Error) => {
    throw new ModelError(`${folder} cannot be made: ${error.message}`, { cause: error });
  });
  const tensors = Object.entries(manifest.tensors).map(([name, { shape }]) => ({ name, shape, dtype }));
  const shards = shardsOf(tensors, mostShardBytes);
  const nameOf = (shard: number): string => {
    if (shards.length === 1) return weightsName;
    const [part, parts] = [shard + 1, shards.length].map((n) => String(n).padStart(5, "0"));
    return weightsName.replace(".", `-${part}-of-${parts}.`);
  };
  async function* bytesOf({ name, shape }: NewTensor): AsyncGenerator<Uint8Array> {
    const elements = elementsOf(shape);
    for (let done = 0; done < elements; done += pieceElements) {
      const values = await states.read(name, "master", done, Math.min(pieceElements, elements - done));
      if (dtype === "F16") checkRange(name, values);
      yield fromFloat32(values, dtype);
    }
  }
  for (const [i, shard] of shards.entries()) await writeSafetensors(join(folder, nameOf(i)), shard, bytesOf);
  const bytes = tensors.reduce((sum, tensor) => sum + bytesOfTensor(tensor), 0);
  if (shards.length > 1) {
    const map = Object.fromEntries(shards.flatMap((shard, i) => shard.map(({ name }) => [name, nameOf(i)])));
    await writeText(join(folder, `${weightsName}.index.json`), {
      metadata: { total_size: bytes },
      weight_map: map,
    });
  }
  await writeAtomically(join(folder, "config.json"), [new TextEncoder().encode(config)]);
  return { files: shards.map((_, i) => nameOf(i)), bytes };
}

/** Greedy, in the order of the tensors. */
function shardsOf<T extends NewTensor>(tensors: readonly T[], mostBytes: number): T[][] {
  const shards: T[][] = [[]];
  let held = 0;
  for (const tensor of tensors) {
    const bytes = bytesOfTensor(tensor);
    if (held > 0 && held + bytes > mostBytes) {
      shards.push([]);
      held = 0;
    }
    shards.at(-1)!.push(tensor);
    held += bytes;
  }
  return shards;
}

const bytesOfTensor = ({ shape, dtype }: NewTensor): number => elementsOf(shape) * floatBytes[dtype];

const writeText = (path: string, value: object): Promise<void> =>
  writeAtomically(path, [new TextEncoder().encode(`${JSON.stringify(value, undefined, 2)}\n`)]);

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

function checkRange(name: string, values: Float32Array): void {
  const beyond = values.find((value) => Math.abs(value) >= 65520 && Number.isFinite(value));
  if (beyond !== undefined)
    throw new ModelError(`tensor ${name} has the value ${beyond}, beyond 65504, fp16's largest; give --dtype bf16`);
}
