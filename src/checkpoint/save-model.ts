/** From a running engine to a model folder. */
import type { LoraConfig } from "../config/types.ts";
import {
  anObject,
  checkArgument,
  checkOptions,
  type Kinds,
  numberThat,
  oneOf,
  path,
  required,
} from "../errors/options.ts";
import { isAdapter } from "../nn/lora.ts";
import type { ModelConfig } from "../nn/models/models.ts";
import { elementsOf } from "../tensor/tensor.ts";
import type { Engine } from "../zero/engine.ts";
import { writeAdapterFolder } from "./adapter-folder.ts";
import { defaultFormat, type ModelFormat, type WeightType, weightTypes } from "./weight-names.ts";
import { beyondFp16, type ModelTensor, writeModel } from "./write-model.ts";

const dtype = oneOf(Object.keys(weightTypes));

const formatKinds: Kinds<ModelFormat> = {
  dtype,
  maxShardBytes: numberThat("a positive number of bytes", (bytes) => bytes > 0),
};

/**
 * Writes config.json and the master weights in Hugging Face's layout: in fp32, or rounded to a 16-bit type. Every rank calls it, since
 * each holds a part; rank 0 writes, piece by piece. A model that is in the folder stays whole until the new one is complete.
 * @throws ModelError on rank 0 where the folder cannot be written
 */
export async function saveModel<B extends object>(
  engine: Engine<B>,
  config: ModelConfig,
  folder: string,
  format: Partial<ModelFormat> = {},
): Promise<void> {
  checkArgument("saveModel", "folder", folder, required(path));
  checkOptions<Partial<ModelFormat>>("saveModel", format, formatKinds);
  await writeOnFirst(
    engine,
    () => true,
    async (tensors, values) => {
      await writeModel(folder, { config, tensors, values }, { ...defaultFormat, ...format });
    },
  );
}

export interface AdapterOfEngine {
  readonly config: ModelConfig;
  readonly lora: LoraConfig;
  /** What `--model` named; null: not known. */
  readonly base: string | null;
}

const adapterKinds: Kinds<AdapterOfEngine> = {
  config: required(anObject),
  lora: required(anObject),
  base: required({ wanted: "a model's name or null", holds: (value) => value === null || typeof value === "string" }),
};

/** The same of LoRA's adapters alone, in PEFT's layout. @throws ModelError on rank 0 where the folder cannot be written */
export async function saveAdapter<B extends object>(
  engine: Engine<B>,
  adapter: AdapterOfEngine,
  folder: string,
  format: WeightType = defaultFormat.dtype,
): Promise<void> {
  checkOptions("saveAdapter", adapter, adapterKinds);
  checkArgument("saveAdapter", "folder", folder, required(path));
  checkArgument("saveAdapter", "dtype", format, dtype);
  await writeOnFirst(engine, isAdapter, (tensors, values) =>
    writeAdapterFolder(folder, { ...adapter, dtype: format }, tensors, values),
  );
}

/** Rank 0 writes tensors of these names, whose values all ranks gather together. */
async function writeOnFirst<B extends object>(
  engine: Engine<B>,
  wants: (name: string) => boolean,
  write: (
    tensors: readonly ModelTensor[],
    values: (tensor: ModelTensor) => AsyncGenerator<Float32Array>,
  ) => Promise<void>,
): Promise<void> {
  const pieces = engine.weights(wants);
  const all = engine.plan.units.flatMap((unit) => unit.flats.flatMap((flat) => flat.pieces));
  const values = async function* ({ shape }: ModelTensor): AsyncGenerator<Float32Array> {
    const elements = elementsOf(shape);
    for (let done = 0; done < elements; ) {
      const { value, done: ended } = await pieces.next();
      if (ended) return;
      done += value.values.length;
      yield value.values;
    }
  };
  try {
    if (engine.group.rank === 0)
      await write(
        all.filter(({ name }) => wants(name)),
        values,
      );
  } finally {
    // The ranks gather together: one that stopped early, for a full disk, would keep the others waiting.
    for await (const _ of pieces);
  }
}

/** Whether fp16 holds every weight. Every rank calls it, and all have the same answer. */
export async function fitsFp16<B extends object>(engine: Engine<B>): Promise<boolean> {
  let fits = true;
  for await (const { values } of engine.weights()) fits &&= beyondFp16(values) === undefined;
  return fits;
}
