/** From a model folder or a checkpoint to something that writes text. */
import { generationConfigName } from "../checkpoint/generation-json.ts";
import { ProcessGroup } from "../comm/group.ts";
import { type ParsedConfig, parseConfigFile, parseConfigObject } from "../config/json.ts";
import { type Override, resolveConfig } from "../config/resolve.ts";
import { checkVocabulary } from "../data/vocabulary.ts";
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
import { enterWorld, type World, type WorldOptions, worldKinds } from "../launch/world.ts";
import { createLogger, type Logger } from "../log/logger.ts";
import type { LanguageBatch } from "../nn/models/language-model.ts";
import { createModel, isLlama, type ModelConfig } from "../nn/models/models.ts";
import { tuned } from "../nn/tuning.ts";
import { byteTokenizer, openTokenizer, type Tokenizer } from "../tokenizer/tokenizer.ts";
import { type ModelSource, openModelSource } from "./model-source.ts";
import { TextGenerator } from "./text-generator.ts";

export interface OpenGeneratorOptions extends WorldOptions {
  /** A folder with LoRA's adapters of the model. */
  readonly adapter?: string | undefined;
  /** A tokenizer.json or a folder with one. Defaults to the model's, or else to bytes. */
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
 * Opens a folder with config.json, weights and perhaps a tokenizer; or a checkpoint of `train`, or a folder of them: its newest undamaged
 * one, with the adapters that the run had. Every rank of the world calls it alike. Nothing of it trains: it has neither gradients nor
 * optimizer states. `await using model = await openGenerator(folder)` frees everything at the end.
 * @throws ModelError, CheckpointError, UsageError, ConfigError, MemoryBudgetError
 */
export async function openGenerator(folder: string, options: OpenGeneratorOptions = {}): Promise<TextGenerator> {
  checkArgument("openGenerator", "folder", folder, required(pathKind));
  checkOptions("openGenerator", options, kinds);
  const world = enterWorld(options, budgetAdvice);
  const logger = createLogger({ rank: world.rank });
  const { source, tokenizer, engineConfig } = await openIn(world, folder, options, logger);
  await using _source = source;
  const { config, lora, weights } = source;
  const model = tuned(createModel(config), { freeze: [], lora });
  for (const [, parameter] of model.namedParameters()) parameter.trainable = false;
  const engine = await initializeIn<LanguageBatch>(world, engineConfig, { model, weights });
  // Nobody who generates needs to know what would train.
  const warnings = engineConfig.warnings.filter((warning) => !/(^|: )optimizer\./.test(warning));
  for (const notice of [...warnings, ...noticesOf(engine)]) logger.warn(notice);
  const { endTokens = endTokensOf(config), sampling, notApplied = [] } = source.generation ?? {};
  if (notApplied.length > 0)
    logger.warn(`the model's ${generationConfigName} has ${notApplied.join(", ")}, which this version does not apply`);
  return new TextGenerator({ engine, model, tokenizer, endTokens, sampling });
}

interface Opened {
  readonly source: ModelSource;
  readonly tokenizer: Tokenizer;
  readonly engineConfig: ReturnType<typeof resolveConfig>;
}

/** What an engine is made of. The world is let go of where this fails, as by `initializeIn`. */
async function openIn(world: World, folder: string, options: OpenGeneratorOptions, logger: Logger): Promise<Opened> {
  const { device, transport, worldSize } = world;
  let source: ModelSource | undefined;
  try {
    const engineConfig = inferenceConfig(options.config, worldSize);
    const group = new ProcessGroup(device, transport);
    source = await openModelSource(folder, { adapter: options.adapter, group, logger });
    const tokenizer = await tokenizerOf(source, options.tokenizer, logger);
    return { source, tokenizer, engineConfig };
  } catch (error) {
    await source?.[Symbol.asyncDispose]();
    transport.dispose();
    device.dispose();
    throw error;
  }
}

async function tokenizerOf(source: ModelSource, given: string | undefined, logger: Logger): Promise<Tokenizer> {
  const { vocabularySize } = source.config;
  const own = given ?? (await source.tokenizer());
  const tokenizer = own === undefined ? byteTokenizer : await openTokenizer(own);
  checkVocabulary(tokenizer, vocabularySize);
  if (own === undefined && vocabularySize > byteTokenizer.vocabularySize)
    logger.warn(
      `${source.folder} has no tokenizer.json, so bytes are tokens, and the model has ${vocabularySize} tokens; where it was made with a tokenizer, give that`,
    );
  return tokenizer;
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

/** What config.json says ends a text, where there is no generation_config.json that does. */
function endTokensOf(config: ModelConfig): readonly number[] {
  const given = isLlama(config) ? config.specialTokens.eos_token_id : undefined;
  return typeof given === "number" ? [given] : (given ?? []);
}
