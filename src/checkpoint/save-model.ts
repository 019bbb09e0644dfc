/** From a running engine to a model folder. */
import type { ModelConfig } from "../nn/models/models.ts";
import type { Engine } from "../zero/engine.ts";
import { writeModelFolder } from "./huggingface.ts";

/**
 * Writes config.json and model.safetensors (fp32, from the master weights) in Hugging Face's layout. Every rank calls it, since
 * each holds a part; rank 0 writes, piece by piece, and each file appears only once it is complete.
 * @throws ModelError where the folder cannot be written
 */
export async function saveModel<B extends object>(
  engine: Engine<B>,
  config: ModelConfig,
  folder: string,
): Promise<void> {
  const pieces = engine.weights();
  if (engine.group.rank !== 0) {
    for await (const _ of pieces);
    return;
  }
  const tensors = engine.plan.units
    .flatMap((unit) => unit.flats.flatMap((flat) => flat.pieces))
    .map(({ name, shape, elements }) => ({ name, shape, elements, dtype: "F32" as const }));
  const bytesOf = async function* (elements: number): AsyncGenerator<Uint8Array> {
    for (let done = 0; done < elements; ) {
      const { value, done: ended } = await pieces.next();
      if (ended) return;
      done += value.values.length;
      yield new Uint8Array(value.values.buffer, value.values.byteOffset, value.values.byteLength);
    }
  };
  await writeModelFolder(folder, config, tensors, (tensor) => bytesOf(tensor.elements));
}
