/** The one writer of model folders in Hugging Face's layout: config.json, and the weights in one file or in shards with an index. */
import { join } from "node:path";
import { floatBytes, fromFloat32 } from "../device/halves.ts";
import { ModelError } from "../errors/errors.ts";
import type { ModelConfig } from "../nn/models/models.ts";
import { elementsOf } from "../tensor/tensor.ts";
import { renderModelConfig } from "./architectures.ts";
import { writeAtomically } from "./atomic-file.ts";
import { ModelPublication } from "./model-publication.ts";
import { writeSafetensors } from "./safetensors-writer.ts";
import { configName, type ModelFormat, safetensorsNames, type WeightType, weightTypes } from "./weight-names.ts";

export interface ModelTensor {
  readonly name: string;
  readonly shape: readonly number[];
}

export interface ModelContent<T extends ModelTensor> {
  readonly config: ModelConfig;
  readonly tensors: readonly T[];
  /** All values of a tensor in row-major order, in pieces of any length; tensors are asked for one after another, in order. */
  values(tensor: T): AsyncIterable<Float32Array>;
}

export interface WrittenModel {
  /** Of weights, in order. */
  readonly files: readonly string[];
  /** Of all tensors. */
  readonly bytes: number;
}

/**
 * Makes `folder`, or replaces the model in it: what was there stays whole until the new one is complete beside it and on disk. Holds a
 * piece or two of a tensor at a time.
 * @throws ModelError where the folder cannot be written, or a value is beyond what fp16 holds; errors of `values` pass through
 */
export async function writeModel<T extends ModelTensor>(
  folder: string,
  { config, tensors, values }: ModelContent<T>,
  { dtype, maxShardBytes }: ModelFormat,
): Promise<WrittenModel> {
  const type = weightTypes[dtype].stored;
  const bytesOf = ({ shape }: ModelTensor): number => elementsOf(shape) * floatBytes[type];
  const shards = shardsOf(
    tensors.map((tensor) => ({ ...tensor, tensor, dtype: type })),
    bytesOf,
    maxShardBytes,
  );
  const files = shards.map((_, i) => shardName(i, shards.length));
  const bytes = tensors.reduce((sum, tensor) => sum + bytesOf(tensor), 0);
  await using publication = await ModelPublication.begin(folder);
  const write = (name: string, value: string): Promise<void> =>
    writeAtomically(join(publication.folder, name), [new TextEncoder().encode(value)]);
  for (const [i, shard] of shards.entries())
    await writeSafetensors(join(publication.folder, files[i]!), shard, ({ tensor }) =>
      bytesOfValues(tensor.name, values(tensor), dtype),
    );
  if (shards.length > 1) {
    const map = Object.fromEntries(shards.flatMap((shard, i) => shard.map(({ name }) => [name, files[i]!])));
    const index = { metadata: { total_size: bytes }, weight_map: map };
    await write(safetensorsNames.index, `${JSON.stringify(index, undefined, 2)}\n`);
  }
  await write(configName, renderModelConfig(config, dtype));
  await publication.publish([...files, ...(shards.length > 1 ? [safetensorsNames.index] : [])]);
  return { files, bytes };
}

/** Values as a file has them. @throws ModelError for a value beyond what fp16 holds */
export async function* bytesOfValues(
  name: string,
  values: AsyncIterable<Float32Array>,
  dtype: WeightType,
): AsyncGenerator<Uint8Array> {
  const type = weightTypes[dtype].stored;
  for await (const piece of values) {
    if (type === "F16") checkRange(name, piece);
    yield fromFloat32(piece, type);
  }
}

/** Greedy, in the order of the tensors. */
function shardsOf<T>(tensors: readonly T[], bytesOf: (tensor: T) => number, mostBytes: number): T[][] {
  const shards: T[][] = [[]];
  let held = 0;
  for (const tensor of tensors) {
    const bytes = bytesOf(tensor);
    if (held > 0 && held + bytes > mostBytes) {
      shards.push([]);
      held = 0;
    }
    shards.at(-1)!.push(tensor);
    held += bytes;
  }
  return shards;
}

/** As `transformers` names them. */
function shardName(shard: number, shards: number): string {
  if (shards === 1) return safetensorsNames.file;
  const [part, parts] = [shard + 1, shards].map((n) => String(n).padStart(5, "0"));
  return safetensorsNames.file.replace(".", `-${part}-of-${parts}.`);
}

/** The first value that fp16 would round to infinity. */
export const beyondFp16 = (values: Float32Array): number | undefined =>
  values.find((value) => Math.abs(value) >= 65520 && Number.isFinite(value));

function checkRange(name: string, values: Float32Array): void {
  const beyond = beyondFp16(values);
  if (beyond !== undefined)
    throw new ModelError(`tensor ${name} has the value ${beyond}, beyond 65504, fp16's largest; write bf16 or fp32`);
}
