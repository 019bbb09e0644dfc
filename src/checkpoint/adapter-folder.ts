/** A folder with LoRA's adapters as PEFT lays it out: adapter_config.json and adapter_model.safetensors. */
import { mkdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { LoraConfig } from "../config/types.ts";
import { ModelError } from "../errors/errors.ts";
import { anObject, checkArgument, path as pathKind, required } from "../errors/options.ts";
import { reasonOf } from "../errors/system-error.ts";
import { isAdapter, targetNames } from "../nn/lora.ts";
import { createModel, isLlama, type ModelConfig } from "../nn/models/models.ts";
import { tuned } from "../nn/tuning.ts";
import { type AdapterConfig, parseAdapterConfig, renderAdapterConfig } from "./adapter-json.ts";
import { tensorNamesOf } from "./architectures.ts";
import { writeAtomically } from "./atomic-file.ts";
import type { ModelWeights } from "./huggingface.ts";
import { openSafetensors } from "./safetensors.ts";
import { writeSafetensors } from "./safetensors-writer.ts";
import { openTorchWeights } from "./torch-weights.ts";
import type { WeightFile } from "./weight-file.ts";
import { type WeightNames, type WeightType, weightTypes } from "./weight-names.ts";
import { bytesOfValues, type ModelTensor } from "./write-model.ts";

export const adapterConfigName = "adapter_config.json";
export const adapterWeightsName = "adapter_model.safetensors";
/** Of PEFT before safetensors. */
const oldWeightsName = "adapter_model.bin";

/** In the order in which they are taken. */
export const adapterWeightNames: readonly WeightNames[] = [
  { file: adapterWeightsName, index: `${adapterWeightsName}.index.json`, extension: ".safetensors" },
  { file: oldWeightsName, index: `${oldWeightsName}.index.json`, extension: ".bin" },
];

/** What PEFT's wrappers put before a layer's name. */
const prefix = "base_model.model.";

export interface AdapterFolder extends AsyncDisposable {
  readonly lora: LoraConfig;
  readonly base: string | null;
  /** By the names that the model gives its adapters. */
  readonly weights: ModelWeights;
}

/** Opens a folder and checks its settings and every tensor against the model. @throws ModelError */
export async function openAdapterFolder(folder: string, model: ModelConfig): Promise<AdapterFolder> {
  checkArgument("openAdapterFolder", "folder", folder, required(pathKind));
  checkArgument("openAdapterFolder", "model", model, required(anObject));
  const { lora, base } = await readAdapterConfig(folder);
  const shapes = adapterShapes(model, lora, folder);
  const file = await openWeights(folder);
  try {
    const places = placesIn(file, shapes, tensorNamesOf(model).canonical);
    const weights: ModelWeights = {
      has: (name) => places.has(name),
      shape: (name) => shapes.get(name) ?? missing(file.path, name),
      read: (name, first, count) => file.readFloat32(places.get(name) ?? missing(file.path, name), first, count),
      folderOf: () => undefined,
    };
    return { lora, base, weights, [Symbol.asyncDispose]: () => file.close() };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** The model's own weights and an adapter's as one. */
export const withAdapter = (own: ModelWeights, adapter: ModelWeights): ModelWeights => {
  const of = (name: string): ModelWeights => (adapter.has(name) ? adapter : own);
  return {
    has: (name) => of(name).has(name),
    shape: (name) => of(name).shape(name),
    read: (name, first, count) => of(name).read(name, first, count),
    folderOf: (name) => of(name).folderOf(name),
  };
};

export interface NewAdapter extends AdapterConfig {
  readonly config: ModelConfig;
  readonly dtype: WeightType;
}

/**
 * Writes both files into `folder`, which is made if it is not there; the settings come last.
 * @param tensors by the model's names @param values gives each tensor's values in pieces, in the order of `tensors`
 */
export async function writeAdapterFolder<T extends ModelTensor>(
  folder: string,
  { config, lora, base, dtype }: NewAdapter,
  tensors: readonly T[],
  values: (tensor: T) => AsyncIterable<Float32Array>,
): Promise<void> {
  await mkdir(folder, { recursive: true }).catch((error: Error) => {
    throw new ModelError(`${folder} cannot be made: ${reasonOf(error)}`, { cause: error });
  });
  const { stored } = weightTypes[dtype];
  const named = tensors.map((tensor) => ({ name: prefix + tensor.name, shape: tensor.shape, dtype: stored, tensor }));
  await writeSafetensors(join(folder, adapterWeightsName), named, ({ tensor }) =>
    bytesOfValues(tensor.name, values(tensor), dtype),
  );
  const targets = targetNames(createModel(config), lora.targets);
  const text = renderAdapterConfig({ lora, base, targets, fanInFanOut: !isLlama(config) });
  await writeAtomically(join(folder, adapterConfigName), [new TextEncoder().encode(text)]);
}

/** Shapes of the adapters' tensors by name. @throws ModelError for targets that the model does not have */
export function adapterShapes(
  model: ModelConfig,
  lora: LoraConfig,
  where: string,
): ReadonlyMap<string, readonly number[]> {
  try {
    const parameters = tuned(createModel(model), { freeze: [], lora }).namedParameters();
    return new Map(parameters.filter(([name]) => isAdapter(name)).map(([name, { shape }]) => [name, shape]));
  } catch (error) {
    const why = (error as Error).message.replace(/^shunya\.lora\.targets: /, "target_modules: ");
    throw new ModelError(`${where} does not fit the model: ${why}`, { cause: error });
  }
}

async function readAdapterConfig(folder: string): Promise<AdapterConfig> {
  const path = join(folder, adapterConfigName);
  const text = await readFile(path, "utf8").catch(async (error: NodeJS.ErrnoException) => {
    const found = await stat(folder).catch((error: NodeJS.ErrnoException) => error);
    const why =
      found instanceof Error
        ? `: ${found.code === "ENOENT" ? "no such folder" : reasonOf(found)}`
        : !found.isDirectory()
          ? " is a file"
          : error.code === "ENOENT"
            ? ` has no ${adapterConfigName}`
            : `: ${adapterConfigName} cannot be read (${reasonOf(error)})`;
    throw new ModelError(`${folder}${why}; wanted a folder with an adapter, as PEFT and train --output write it`, {
      cause: error,
    });
  });
  return parseAdapterConfig(text, path);
}

async function openWeights(folder: string): Promise<WeightFile> {
  const exists = async (name: string): Promise<boolean> =>
    (await stat(join(folder, name)).catch(() => undefined)) !== undefined;
  if (await exists(adapterWeightsName)) return openSafetensors(join(folder, adapterWeightsName));
  if (await exists(oldWeightsName)) return openTorchWeights(join(folder, oldWeightsName));
  throw new ModelError(
    `${folder} has no ${adapterWeightsName}; wanted an adapter's weights beside ${adapterConfigName}`,
  );
}

/** What each of the model's tensors is called in the file. @throws ModelError for one too many, too few or of another shape */
function placesIn(
  file: WeightFile,
  shapes: ReadonlyMap<string, readonly number[]>,
  canonical: (name: string) => string,
): ReadonlyMap<string, string> {
  const places = new Map<string, string>();
  for (const [stored, { shape, dtype }] of file.tensors) {
    const name = stored.startsWith(prefix) ? canonical(stored.slice(prefix.length)) : stored;
    const wanted = shapes.get(name);
    const fail = (why: string): never => {
      throw new ModelError(`${file.path}: tensor ${stored}: ${why}`);
    };
    if (!wanted) return fail(`no part of the adapter that ${adapterConfigName} describes, for this model`);
    if (shape.join() !== wanted.join()) fail(`found shape [${shape.join(", ")}]; wanted [${wanted.join(", ")}]`);
    if (!["F32", "F16", "BF16"].includes(dtype)) fail(`found dtype ${dtype}; wanted F32, F16 or BF16`);
    if (places.has(name)) fail(`it is there twice, as ${places.get(name)} too`);
    places.set(name, stored);
  }
  const lacking = [...shapes.keys()].find((name) => !places.has(name));
  if (lacking !== undefined) missing(file.path, prefix + lacking);
  return places;
}

function missing(path: string, name: string): never {
  throw new ModelError(`${path}: tensor ${name} is missing; wanted both factors of every layer in target_modules`);
}
