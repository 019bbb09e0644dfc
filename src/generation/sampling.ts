/** From a model's logits to one token: temperature, the likeliest k, the likeliest that make up a share p, and a draw among those. */
import { NumericalError } from "../errors/errors.ts";
import { uniform } from "../tensor/random.ts";

export interface Sampling {
  /** 0 takes the likeliest token each time; other values divide the logits. */
  readonly temperature: number;
  /** Draws from so many of the likeliest tokens. Undefined: from all. */
  readonly topK?: number | undefined;
  /**
   * Draws from the fewest of the likeliest tokens whose probabilities add up to this share or more (Holtzman et al., "The curious
   * case of neural text degeneration", 2020); of those that topK leaves. Undefined: from all.
   */
  readonly topP?: number | undefined;
  readonly seed: number;
}

/** A token that may be drawn. */
export interface Choice {
  readonly token: number;
  /** Adds up to 1 over all choices. */
  readonly probability: number;
}

/** @param index of the draw; equal seeds and indices draw alike @throws NumericalError where a logit is not finite */
export function sampleToken(logits: Float32Array, sampling: Sampling, index: number): number {
  const choices = choicesOf(logits, sampling);
  let left = uniform(sampling.seed, index);
  for (const { token, probability } of choices) {
    left -= probability;
    if (left < 0) return token;
  }
  return choices.at(-1)!.token; // rounding ate the rest
}

/** What may be drawn and how likely: where topK or topP choose, the likeliest first; of equal ones the smaller token. */
export function choicesOf(logits: Float32Array, sampling: Omit<Sampling, "seed">): Choice[] {
  const { temperature, topK = logits.length, topP = 1 } = sampling;
  const largest = largestOf(logits);
  if (temperature === 0) return [{ token: logits.indexOf(largest), probability: 1 }];
  const weightOf = (token: number): number => Math.exp((logits[token]! - largest) / temperature);
  const kept = topK < logits.length ? likeliest(logits, topK) : [...logits.keys()];
  const wanted = topP * kept.reduce((sum, token) => sum + weightOf(token), 0);
  const chosen = topP === 1 ? kept : cutAt(wanted, weightOf, topK < logits.length ? kept : logits);
  const weights = chosen.map(weightOf);
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return chosen.map((token, i) => ({ token, probability: weights[i]! / sum }));
}

/** The fewest of the likeliest tokens whose weights add up to `wanted`. @param from in order, or all logits */
function cutAt(wanted: number, weightOf: (token: number) => number, from: number[] | Float32Array): number[] {
  const most = from.length;
  // Mostly a few tokens have nearly all of the weight: ordering all of them would take longer than a pass of a small model.
  for (let ordered = 256; ; ordered *= 8) {
    const tokens = from instanceof Float32Array ? likeliest(from, Math.min(ordered, most)) : from;
    let count = 0;
    let weight = 0;
    while (count < tokens.length && (count === 0 || weight < wanted)) weight += weightOf(tokens[count++]!);
    if (weight >= wanted || tokens.length === most) return tokens.slice(0, count);
  }
}

/** Looks at each logit once: beside the passes of a small model, two looks at a large vocabulary take their time. */
function largestOf(logits: Float32Array): number {
  let largest = Number.NEGATIVE_INFINITY;
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token]!;
    if (logit > largest) largest = logit;
    else if (Number.isNaN(logit)) throw notFinite(logit);
  }
  if (largest === Number.POSITIVE_INFINITY) throw notFinite(largest);
  if (largest === Number.NEGATIVE_INFINITY)
    throw new NumericalError("the model's logits are all -Infinity: no token can be chosen by them");
  return largest;
}

const notFinite = (logit: number): NumericalError =>
  new NumericalError(
    `the model's logits hold ${logit}: no token can be chosen by them; its weights are damaged, or training them diverged`,
  );

/** The tokens of the `count` largest logits, in order: one pass with a heap of the best so far, its worst on top. */
function likeliest(logits: Float32Array, count: number): number[] {
  const isWorse = (a: number, b: number): boolean => logits[a]! < logits[b]! || (logits[a] === logits[b] && a > b);
  const heap: number[] = [];
  const sink = (at: number): void => {
    for (;;) {
      let worst = at;
      for (const child of [2 * at + 1, 2 * at + 2])
        if (child < heap.length && isWorse(heap[child]!, heap[worst]!)) worst = child;
      if (worst === at) return;
      [heap[at], heap[worst]] = [heap[worst]!, heap[at]!];
      at = worst;
    }
  };
  for (let token = 0; token < count; token++) heap.push(token);
  for (let at = Math.floor(count / 2) - 1; at >= 0; at--) sink(at);
  let worst = logits[heap[0]!]!;
  for (let token = count; token < logits.length; token++) {
    if (!(logits[token]! > worst)) continue; // of equal ones the smaller token is there
    heap[0] = token;
    sink(0);
    worst = logits[heap[0]!]!;
  }
  return heap.sort((a, b) => (isWorse(a, b) ? 1 : -1));
}
