/** A text continued token by token: by one rank, or by all together where they share the parameters. */
import type { DType } from "../device/dtype.ts";
import { UsageError } from "../errors/errors.ts";
import { KeyValueCache } from "../nn/key-value-cache.ts";
import type { LanguageBatch, LanguageModel } from "../nn/models/language-model.ts";
import type { Engine } from "../zero/engine.ts";
import { readingBytes } from "./pass-memory.ts";
import { type Sampling, sampleToken } from "./sampling.ts";

/** An engine and the model in it. */
export interface RunningModel {
  readonly engine: Engine<LanguageBatch>;
  readonly model: LanguageModel;
}

export interface TokenOptions extends Sampling {
  /** Most tokens. */
  readonly tokens: number;
  /** Logits from this one on are those of no token: a vocabulary may be padded. */
  readonly vocabularySize: number;
  /** Tokens that end a text. */
  readonly ends: ReadonlySet<number>;
  /** Ends the text after the token that is being made. Where ranks make it together, one rank's is enough. */
  readonly signal?: AbortSignal | undefined;
}

/** Why there are no more tokens: as many as were asked for, a token that ends texts, or a signal. */
export type TokenFinish = "length" | "end" | "interrupted";

/** Whether ranks can make texts only together: their passes gather parameters from each other. */
export const sharesParameters = ({ plan }: Pick<Engine<LanguageBatch>, "plan">): boolean =>
  plan.residences.parameters.split === "shard";

/** Of a prompt, in one pass: what a pass takes in memory grows with it. */
export const passTokens = 512;

/**
 * Yields the tokens that follow `prompt`; one that ends the text is not among them. Keys and values are kept, so that each token is
 * read once. A text that has grown as long as the model takes goes on with the newest half of that, which is read anew; and one that
 * turns from a short text to a long one, as longrope tells them apart, is read anew as a whole.
 *
 * It is called between two steps: where parameters are shared by every rank alike, and all read to the same end; else by any rank, with
 * any prompt. The model is whole on the device meanwhile, where that fits (`engine.withWhole`). All memory goes when the loop over the
 * tokens is left, however that happens.
 */
export async function* generateTokens(
  { engine, model }: RunningModel,
  prompt: Int32Array,
  options: TokenOptions,
): AsyncGenerator<number, TokenFinish> {
  if (prompt.length === 0) throw new UsageError("the prompt has no tokens; give at least one character");
  const { longestSequence, shortTextTokens = Infinity } = model;
  const capacity = Math.min(longestSequence, prompt.length + options.tokens - 1);
  const dtype: DType = engine.plan.residences.parameters.dtype;
  using _whole = await engine.holdWhole(await readingBytes(model, { capacity, passTokens, dtype }));
  using cache = new KeyValueCache(engine.device, model.keyValueShape, capacity, dtype);
  const text = [...prompt];
  let unread: readonly number[] = text.slice(-longestSequence);
  cache.clear(unread.length);
  for (let i = 0; i < options.tokens; i++) {
    const tokens = cache.length + unread.length;
    const becomesLong = cache.length <= shortTextTokens && tokens > shortTextTokens;
    if (tokens > longestSequence || becomesLong) {
      unread = text.slice(-(tokens > longestSequence ? Math.ceil(longestSequence / 2) : tokens));
      cache.clear(unread.length);
    }
    const logits = await read({ engine, model }, cache, unread);
    const own = sampleToken(logits.subarray(0, options.vocabularySize), options, i);
    const { token, isStopped } = await decide(engine, own, options.signal);
    if (isStopped) return "interrupted";
    if (options.ends.has(token)) return "end";
    text.push(token);
    unread = [token];
    yield token;
  }
  return "length";
}

/** Logits of the token that follows. */
async function read(
  { engine, model }: RunningModel,
  cache: KeyValueCache,
  tokens: readonly number[],
): Promise<Float32Array> {
  let logits: Float32Array = new Float32Array();
  for (let at = 0; at < tokens.length; at += passTokens) {
    const ids = Int32Array.from(tokens.slice(at, at + passTokens));
    logits = await engine.infer((tape) => model.nextLogits(tape, tape.integers(ids, [1, ids.length]), cache));
  }
  return logits;
}

/**
 * Of a text that ranks make together rank 0's token is everybody's: they have the same logits where they run on the same processors, and if
 * that ever were not so, two texts would part unseen and the next collective would wait for ever. Sixteen bytes are cheap beside a pass.
 */
async function decide(
  engine: Engine<LanguageBatch>,
  own: number,
  signal: AbortSignal | undefined,
): Promise<{ token: number; isStopped: boolean }> {
  const isStopped = signal?.aborted ?? false;
  if (!sharesParameters(engine)) return { token: own, isStopped };
  const ranks = await engine.group.exchange(Float64Array.of(own, Number(isStopped)), "a token");
  return { token: ranks[0]![0]!, isStopped: ranks.some(([, stopped]) => stopped !== 0) };
}
