/** The models of this version by their configuration, so that no caller asks which one it has. */

import { anObject, checkArgument, required } from "../../errors/options.ts";
import { Gpt2 } from "./gpt2.ts";
import { type Gpt2Config, gpt2Configs } from "./gpt2-config.ts";
import type { LanguageModel } from "./language-model.ts";
import { Llama } from "./llama.ts";
import type { LlamaArchitecture, LlamaConfig } from "./llama-config.ts";
import { llamaConfigs } from "./llama-published.ts";

/** A configuration without an `architecture` is GPT-2's. */
export type ModelConfig = Gpt2Config | LlamaConfig;

/** Published models by the name that `--model` takes. */
export const modelConfigs: Readonly<Record<string, ModelConfig>> = { ...gpt2Configs, ...llamaConfigs };

/** In any case. */
export const publishedConfig = (name: string): ModelConfig | undefined => {
  const lower = name.toLowerCase();
  return Object.hasOwn(modelConfigs, lower) ? modelConfigs[lower] : undefined;
};

export const isLlama = (config: ModelConfig): config is LlamaConfig => "architecture" in config;

export const architectureOf = (config: ModelConfig): "gpt2" | LlamaArchitecture =>
  isLlama(config) ? config.architecture : "gpt2";

/** @throws UsageError, ShapeError */
export function createModel(config: ModelConfig): LanguageModel {
  checkArgument("createModel", "config", config, required(anObject));
  return isLlama(config) ? new Llama(config) : new Gpt2(config);
}
