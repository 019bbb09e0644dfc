/** From a model folder to something that writes text. */
import { openAdapterFolder, withAdapter } from "../checkpoint/adapter-folder.ts";
import { openModelFolder } from "../checkpoint/huggingface.ts";
import { type ParsedConfig, parseConfigFile, parseConfigObject } from "../config/json.ts";
import { type Override, resolveConfig } from "../config/resolve.ts";
import { checkVocabulary } from "../data/vocabulary.ts";
import { ModelError } from "../errors/errors.ts";
import {
  anObject,
  checkArgument,
  checkOptions,
  either,
  type Kinds,
  path as pathKind,
  required,
} from "../errors/options.ts";
import { initializeIn, noticesOf } from "../launch/initialize.ts";
import { enterWorld, type WorldOptions, worldKinds } from "../launch/world.ts";
import { createLogger } from "../log/logger.ts";
import type { LanguageBatch } from "../nn/models/language-model.ts";
import { createModel, isLlama, type ModelConfig } from "../nn/models/models.ts";
import { tuned } from "../nn/tuning.ts";
import { findTokenizer } from "../tokenizer/open.ts";
import { byteTokenizer, openTokenizer } from "../tokenizer/tokenizer.ts";
import { TextGenerator } from "./text-generator.ts";

export interface OpenGeneratorOptions extends WorldOptions {
  /** A folder with LoRA's adapters of the model. */
  readonly adapter?: string | undefined;
  /** A tokenizer.json or a folder with one. Defaults to the model folder's, or else to bytes. */
  readonly tokenizer?: string | undefined;
  /** DeepSpeed-style, a path or an object: the stage, the precision and where parameters live. Defaults to fp32, whole on the device. */
  readonly config?: string | object | undefined;
}

const kinds: Kinds<OpenGeneratorOptions> = {
  ...worldKinds,
  adapter: pathKind,
  tokenizer: pathKind,
  config: either(pathKind, anObject),
};

/**
 * Opens a folder with config.json, weights and perhaps a tokenizer. Every rank of the world calls it alike. Nothing of it trains: it
 * has neither gradients nor optimizer states. `await using model = await openGenerator(folder)` frees everything at the end.
 * @throws ModelError, UsageError, ConfigError, MemoryBudgetError
 */
export async function openGenerator(folder: string, options: OpenGeneratorOptions = {}): Promise<TextGenerator> {
  checkArgument("openGenerator", "folder", folder, required(pathKind));
  checkOptions("openGenerator", options, kinds);
  await using opened = await openModelFolder(folder);
  const { config } = opened;
  if (!opened.weights)
    throw new ModelError(`${folder} has no weights (no model.safetensors); give a folder that training wrote`);
  const { adapter: path } = options;
  await using adapter = path === undefined ? undefined : await openAdapterFolder(path, config);
  const weights = adapter ? withAdapter(opened.weights, adapter.weights) : opened.weights;
  const own = options.tokenizer ?? (await findTokenizer(folder));
  const tokenizer = own === undefined ? byteTokenizer : await openTokenizer(own);
  checkVocabulary(tokenizer, config.vocabularySize);
  const model = tuned(createModel(config), { freeze: [], lora: adapter?.lora });
  for (const [, parameter] of model.namedParameters()) parameter.trainable = false;
  const world = enterWorld(options, budgetAdvice);
  const engineConfig = inferenceConfig(options.config, world.worldSize);
  const engine = await initializeIn<LanguageBatch>(world, engineConfig, { model, weights });
  const logger = createLogger({ rank: world.rank });
  // Nobody who generates needs to know what would train.
  const warnings = engineConfig.warnings.filter((warning) => !/(^|: )optimizer\./.test(warning));
  for (const notice of [...warnings, ...noticesOf(engine)]) logger.warn(notice);
  if (own === undefined && config.vocabularySize > byteTokenizer.vocabularySize)
    logger.warn(
      `${folder} has no tokenizer.json, so bytes are tokens, and the model has ${config.vocabularySize} tokens; where it was made with a tokenizer, give that`,
    );
  return new TextGenerator({ engine, model, tokenizer, endTokens: endTokensOf(config) });
}

/** Nothing is trained here: what is held are weights, keys and values, and one pass. */
const budgetAdvice =
  "a larger --device-memory (deviceMemoryBytes), fewer tokens or a shorter prompt, or a --config with bf16, or with stage 3 on several ranks";

/** A training configuration may name any batch; none is trained on here. */
function inferenceConfig(given: OpenGeneratorOptions["config"], worldSize: number): ReturnType<typeof resolveConfig> {
  const overrides: Override[] = [
    ["train_batch_size", worldSize],
    ["train_micro_batch_size_per_gpu", 1],
    ["gradient_accumulation_steps", 1],
  ];
  const config = resolveConfig({ file: parse(given), overrides, worldSize });
  return { ...config, freeze: [], lora: undefined };
}

function parse(config: OpenGeneratorOptions["config"]): ParsedConfig | undefined {
  if (config === undefined) return undefined;
  return typeof config === "string" ? parseConfigFile(config) : parseConfigObject(config);
}

/** What config.json says ends a text; models for conversations have several such tokens. */
function endTokensOf(config: ModelConfig): readonly number[] {
  const given = isLlama(config) ? config.specialTokens.eos_token_id : undefined;
  return typeof given === "number" ? [given] : (given ?? []);
}
