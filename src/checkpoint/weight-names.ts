/** Which files of a folder hold a model's weights, by Hugging Face's names. */

import { basename } from "node:path";
import { ModelError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { describeJson } from "./describe.ts";

export const configName = "config.json";

/** Element types of weights by their names in configurations: as safetensors files have them, and as PyTorch does. */
export const weightTypes = {
  fp32: { stored: "F32", torch: "float32" },
  bf16: { stored: "BF16", torch: "bfloat16" },
  fp16: { stored: "F16", torch: "float16" },
} as const;
export type WeightType = keyof typeof weightTypes;

export interface ModelFormat {
  readonly dtype: WeightType;
  /** Of a file's tensors; one that is larger has a file of its own. */
  readonly maxShardBytes: number;
}

/** Exactly what training has; what is rounded is rounded on request. */
export const defaultFormat: ModelFormat = { dtype: "fp32", maxShardBytes: 5e9 };

/** All weights in one file, or in several that an index names. */
export interface WeightNames {
  readonly file: string;
  readonly index: string;
  readonly extension: string;
}

export const safetensorsNames: WeightNames = {
  file: "model.safetensors",
  index: "model.safetensors.index.json",
  extension: ".safetensors",
};

export const torchNames: WeightNames = {
  file: "pytorch_model.bin",
  index: "pytorch_model.bin.index.json",
  extension: ".bin",
};

/** Weights in a form that is not read here; taking such a folder for one without weights would train from scratch unasked. */
export const otherWeights = ["tf_model.h5", "flax_model.msgpack"];

/** Which file holds each tensor. @param path how errors name the index @throws ModelError */
export function parseIndex(path: string, text: string, extension: string): [tensor: string, shard: string][] {
  let map: unknown;
  try {
    map = (JSON.parse(text) as { weight_map?: unknown } | null)?.weight_map;
  } catch (error) {
    throw new ModelError(`${path} is not JSON: ${reasonOf(error)}`, { cause: error });
  }
  if (typeof map !== "object" || map === null || Object.keys(map).length === 0)
    throw new ModelError(`${path} has no weight_map; wanted tensor names and their files`);
  return Object.entries(map).map(([tensor, shard]) => {
    // A shard lies beside its index; anything else could read outside the folder.
    const plain = typeof shard === "string" && shard.endsWith(extension) && basename(shard) === shard;
    if (!plain)
      throw new ModelError(`${path}: tensor ${tensor}: found ${describeJson(shard)}; wanted a ${extension} file name`);
    return [tensor, shard];
  });
}
