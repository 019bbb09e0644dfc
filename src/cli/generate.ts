/** `shunya generate`: continues a prompt with a model folder. */
import { resolveConfig } from "../config/resolve.ts";
import { checkVocabulary } from "../data/vocabulary.ts";
import { ModelError, UsageError } from "../errors/errors.ts";
import { initializeIn } from "../launch/initialize.ts";
import { joinWorld } from "../launch/world.ts";
import type { LanguageBatch } from "../nn/models/language-model.ts";
import { createModel, longestSequence } from "../nn/models/models.ts";
import { uniform } from "../tensor/random.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import { openJobTokenizer, openModel } from "./job.ts";

export interface GenerateOptions {
  readonly model: string;
  readonly prompt: string;
  /** Undefined: the model folder's, or else bytes. */
  readonly tokenizer?: string | undefined;
  readonly tokens: number;
  /** 0: always the likeliest token. */
  readonly temperature: number;
  /** Only the likeliest so many are drawn from. */
  readonly topK: number;
  readonly seed: number;
}

/** Yields the continuation's tokens one by one, until a text ends. @throws ModelError for a folder without weights */
export async function* generate(options: GenerateOptions, tokenizer: Tokenizer): AsyncGenerator<number> {
  await using opened = await openModel(options.model);
  const { config, weights } = opened;
  if (!weights)
    throw new ModelError(`${options.model} has no weights (no model.safetensors); give a folder that training wrote`);
  checkVocabulary(tokenizer, config.vocabularySize);
  const tokens = [...tokenizer.encode(options.prompt, { addSpecialTokens: true })];
  if (options.prompt === "") throw new UsageError("the prompt is empty; give at least one character with --prompt");
  const model = createModel(config);
  for (const [, parameter] of model.namedParameters()) parameter.trainable = false;
  const overrides = [["train_micro_batch_size_per_gpu", 1]] as const;
  const engineConfig = resolveConfig({ overrides: [...overrides], worldSize: 1 });
  await using engine = await initializeIn<LanguageBatch>(joinWorld(), engineConfig, { model, weights });
  for (let i = 0; i < options.tokens; i++) {
    const window = Int32Array.from(tokens.slice(-longestSequence(config)));
    const logits = await engine.infer((tape) => model.nextLogits(tape, tape.integers(window, [1, window.length])));
    const next = sample(logits.subarray(0, tokenizer.vocabularySize), options, i);
    if (next === tokenizer.endOfText) return;
    tokens.push(next);
    yield next;
  }
}

/** Writes the prompt and, as its characters are complete, what follows it. */
export async function printContinuation(options: GenerateOptions): Promise<void> {
  const tokenizer = await openJobTokenizer(options);
  const tokens = generate(options, tokenizer);
  const first = await tokens.next(); // an error comes before anything is printed
  process.stdout.write(options.prompt);
  const text = tokenizer.stream();
  for (let next = first; !next.done; next = await tokens.next()) process.stdout.write(text.push(next.value));
  process.stdout.write(`${text.end()}\n`);
}

/** Draws from softmax(logits / temperature) over the topK likeliest tokens. */
export function sample(
  logits: Float32Array,
  options: Omit<GenerateOptions, "model" | "prompt" | "tokens">,
  index: number,
): number {
  const order = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]!);
  if (options.temperature === 0) return order[0]!;
  const kept = order.slice(0, options.topK);
  const weights = kept.map((token) => Math.exp((logits[token]! - logits[kept[0]!]!) / options.temperature));
  let left = uniform(options.seed, index) * weights.reduce((sum, w) => sum + w, 0);
  for (const [i, weight] of weights.entries()) {
    left -= weight;
    if (left < 0) return kept[i]!;
  }
  return kept.at(-1)!;
}
