/** How the models of this version stand in Hugging Face's files: their config.json and their tensors' names. */

import { ModelError } from "../errors/errors.ts";
import type { Gpt2Config } from "../nn/models/gpt2-config.ts";
import { type LlamaConfig, llamaArchitectures } from "../nn/models/llama-config.ts";
import { isLlama, type ModelConfig } from "../nn/models/models.ts";
import { describeJson } from "./describe.ts";
import { gpt2Record, parseGpt2Config } from "./gpt2-json.ts";
import { canonicalName, gpt2TensorShapes, isNoWeight } from "./gpt2-tensors.ts";
import { parseConfigRecord } from "./json-config.ts";
import { llamaRecord, parseLlamaConfig } from "./llama-json.ts";
import { canonicalLlamaName, isNoLlamaWeight, llamaTensorShapes } from "./llama-tensors.ts";
import { type WeightType, weightTypes } from "./weight-names.ts";

/** The tensors of a model's files. */
export interface TensorNames {
  /** By canonical name, in the order of the network. */
  readonly shapes: ReadonlyMap<string, readonly number[]>;
  /** The one form of a name that files may carry with or without a prefix. */
  canonical(name: string): string;
  /** Whether an entry of a published file is no weight. */
  isNoWeight(canonical: string): boolean;
}

/** The values of `model_type` that can be trained. */
export const modelTypes = ["gpt2", ...llamaArchitectures] as const;

export const isModelType = (type: unknown): type is (typeof modelTypes)[number] =>
  modelTypes.includes(type as (typeof modelTypes)[number]);

/** Reads the text of a config.json; `path` is how errors name it. Throws ModelError with every problem found. */
export function parseModelConfig(text: string, path: string): ModelConfig {
  const { model_type: type } = parseConfigRecord(text, path);
  if (type === "gpt2") return parseGpt2Config(text, path);
  if (isModelType(type)) return parseLlamaConfig(text, path);
  const known = modelTypes.map((name) => `"${name}"`).join(", ");
  throw new ModelError(`${path}: model_type: found ${describeJson(type)}; wanted one of ${known}`);
}

/** The text of a config.json that Hugging Face's classes read. @param dtype of the weights beside it */
export function renderModelConfig(config: ModelConfig, dtype: WeightType = "fp32"): string {
  const record = isLlama(config) ? llamaRecord(config) : gpt2Record(config);
  return `${JSON.stringify({ ...record, torch_dtype: weightTypes[dtype].torch }, undefined, 2)}\n`;
}

export const tensorNamesOf = (config: ModelConfig): TensorNames =>
  isLlama(config) ? llamaNames(config) : gpt2Names(config);

const llamaNames = (config: LlamaConfig): TensorNames => ({
  shapes: llamaTensorShapes(config),
  canonical: canonicalLlamaName,
  isNoWeight: (name) => isNoLlamaWeight(name, config),
});

const gpt2Names = (config: Gpt2Config): TensorNames => ({
  shapes: gpt2TensorShapes(config),
  canonical: canonicalName,
  isNoWeight: (name) => isNoWeight(name, config),
});
