/** A model folder as Hugging Face lays it out: config.json, and weights in one safetensors file or in shards with an index. */

import { readFile, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ModelError } from "../errors/errors.ts";
import { checkArgument, path as pathKind, required } from "../errors/options.ts";
import { reasonOf } from "../errors/system-error.ts";
import { architectureOf, type ModelConfig } from "../nn/models/models.ts";
import { parseModelConfig, type TensorNames, tensorNamesOf } from "./architectures.ts";
import { openSafetensors } from "./safetensors.ts";
import { openTorchWeights } from "./torch-weights.ts";
import type { WeightFile } from "./weight-file.ts";
import {
  configName,
  otherWeights,
  parseIndex,
  safetensorsNames,
  torchNames,
  type WeightNames,
} from "./weight-names.ts";

/** Names may be given with or without the prefix `transformer.` (GPT-2) or `model.`, whichever the file has. */
export interface ModelWeights {
  has(name: string): boolean;
  /** Throws ModelError where the model has no such tensor. */
  shape(name: string): readonly number[];
  /** Elements [firstElement, firstElement + count), row-major, as fp32. */
  read(name: string, firstElement: number, count: number): Promise<Float32Array>;
  /** The folder itself, as an absolute path; undefined for a tensor that is not in a model's folder. */
  folderOf(name: string): string | undefined;
}

export interface ModelFolder extends AsyncDisposable {
  readonly config: ModelConfig;
  /** Undefined where the folder holds no weights: a model to train from scratch. */
  readonly weights: ModelWeights | undefined;
  close(): Promise<void>;
}

interface WeightKind extends WeightNames {
  open(path: string): Promise<WeightFile>;
}

/** Where a folder has weights of both kinds, they are the same, and safetensors needs no care. */
const weightKinds: readonly WeightKind[] = [
  { ...safetensorsNames, open: openSafetensors },
  { ...torchNames, open: openTorchWeights },
];

/** Opens a folder and checks its configuration and every tensor's presence and shape. @throws ModelError, UsageError */
export async function openModelFolder(folder: string): Promise<ModelFolder> {
  checkArgument("openModelFolder", "folder", folder, required(pathKind));
  const config = parseModelConfig(await readConfig(folder), join(folder, configName));
  const files = await openWeightFiles(folder);
  try {
    const weights = files.length === 0 ? undefined : new FolderWeights(folder, config, files);
    const close = async () => {
      await Promise.all(files.map((file) => file.close()));
    };
    return { config, weights, close, [Symbol.asyncDispose]: close };
  } catch (error) {
    await Promise.all(files.map((file) => file.close()));
    throw error;
  }
}

async function readConfig(folder: string): Promise<string> {
  const found = await stat(folder).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error)
    throw new ModelError(
      `${folder}: ${found.code === "ENOENT" ? "no such folder" : reasonOf(found)}; check --model (models on Hugging Face are named owner/name)`,
    );
  if (!found.isDirectory()) throw new ModelError(`${folder} is a file; wanted a model folder with ${configName}`);
  return readFile(join(folder, configName), "utf8").catch((error: NodeJS.ErrnoException) => {
    const why =
      error.code === "ENOENT" ? ` has no ${configName}` : `: ${configName} cannot be read: ${reasonOf(error)}`;
    throw new ModelError(`${folder}${why}; wanted a Hugging Face model folder`, { cause: error });
  });
}

async function openWeightFiles(folder: string): Promise<WeightFile[]> {
  for (const kind of weightKinds) {
    if (await exists(join(folder, kind.file))) return [await kind.open(join(folder, kind.file))];
    if (await exists(join(folder, kind.index))) return openShards(folder, kind);
  }
  for (const name of otherWeights) {
    if (!(await exists(join(folder, name)))) continue;
    throw new ModelError(
      `${folder} has its weights in ${name}; wanted ${safetensorsNames.file}: convert them to safetensors`,
    );
  }
  return [];
}

async function openShards(folder: string, { index, extension, open }: WeightKind): Promise<WeightFile[]> {
  const path = join(folder, index);
  const text = await readFile(path, "utf8").catch((error: Error) => {
    throw new ModelError(`${path} cannot be read: ${reasonOf(error)}`, { cause: error });
  });
  const shardOf = parseIndex(path, text, extension);
  const files = new Map<string, WeightFile>();
  try {
    for (const [name, shard] of shardOf) {
      const shardPath = join(folder, shard);
      if (!files.has(shard)) {
        if (!(await exists(shardPath))) throw new ModelError(`${path} names ${shard}, which is missing in ${folder}`);
        files.set(shard, await open(shardPath));
      }
      if (!files.get(shard)!.tensors.has(name))
        throw new ModelError(`${path} says that ${shard} holds ${name}; it does not`);
    }
    return [...files.values()];
  } catch (error) {
    await Promise.all([...files.values()].map((file) => file.close()));
    throw error;
  }
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

class FolderWeights implements ModelWeights {
  readonly #folder: string;
  /** By canonical name: where the tensor is and what it is called there. */
  readonly #places = new Map<string, { readonly file: WeightFile; readonly stored: string }>();
  readonly #architecture: string;
  readonly #names: TensorNames;

  constructor(folder: string, config: ModelConfig, files: readonly WeightFile[]) {
    this.#folder = folder;
    this.#architecture = architectureOf(config) === "gpt2" ? "GPT-2" : architectureOf(config);
    this.#names = tensorNamesOf(config);
    for (const file of files) {
      for (const stored of file.tensors.keys()) this.#add(file, stored);
    }
    const { shapes } = this.#names;
    const missing = [...shapes.keys()].find((name) => !this.#places.has(name));
    if (missing !== undefined) {
      throw new ModelError(
        `${folder}: tensor ${missing} is missing; wanted all ${shapes.size} tensors that ${configName} implies`,
      );
    }
  }

  has(name: string): boolean {
    return this.#places.has(this.#names.canonical(name));
  }

  shape(name: string): readonly number[] {
    const shape = this.#names.shapes.get(this.#names.canonical(name));
    if (shape === undefined) throw new ModelError(`${this.#folder}: ${this.#architecture} has no tensor ${name}`);
    return shape;
  }

  read(name: string, firstElement: number, count: number): Promise<Float32Array> {
    const place = this.#places.get(this.#names.canonical(name));
    if (place === undefined) throw new ModelError(`${this.#folder}: ${this.#architecture} has no tensor ${name}`);
    return place.file.readFloat32(place.stored, firstElement, count);
  }

  folderOf(name: string): string | undefined {
    return this.has(name) ? resolve(this.#folder) : undefined;
  }

  #add(file: WeightFile, stored: string): void {
    const name = this.#names.canonical(stored);
    if (this.#names.isNoWeight(name)) return;
    const { shape, dtype } = file.tensors.get(stored)!;
    const wanted = this.#names.shapes.get(name);
    if (wanted === undefined) {
      throw new ModelError(
        `${file.path}: tensor ${stored} is no part of the ${this.#architecture} model that ${configName} describes; do the two belong together?`,
      );
    }
    if (shape.length !== wanted.length || shape.some((size, i) => size !== wanted[i])) {
      throw new ModelError(
        `${file.path}: tensor ${stored}: found shape [${shape.join(", ")}]; wanted [${wanted.join(", ")}]`,
      );
    }
    if (!["F32", "F16", "BF16"].includes(dtype)) {
      throw new ModelError(`${file.path}: tensor ${stored}: found dtype ${dtype}; wanted F32, F16 or BF16`);
    }
    const earlier = this.#places.get(name);
    if (earlier !== undefined)
      throw new ModelError(`${file.path}: tensor ${stored} is in ${earlier.file.path} too; wanted it once`);
    this.#places.set(name, { file, stored });
  }
}
