/**
 * The shape of a model of Llama's family: RMS norms, rotary positions, SwiGLU, and keys and values that groups of heads share.
 * Its members differ in a few places, all of which are settings here.
 */

import {
  anObject,
  dropShare,
  type Kinds,
  numberThat,
  oneOf,
  positive,
  required,
  truth,
  wholeNumber,
} from "../../errors/options.ts";

/** By the `model_type` of Hugging Face's config.json: Llama (and SmolLM, TinyLlama), Mistral, Qwen 2 and 2.5, Qwen 3. */
export const llamaArchitectures = ["llama", "mistral", "qwen2", "qwen3"] as const;
export type LlamaArchitecture = (typeof llamaArchitectures)[number];

/** How the frequencies of rotary positions were changed after pretraining, to reach further; names as in config.json. */
export type RopeScaling =
  | { readonly type: "linear"; readonly factor: number }
  /** Beyond the model's positions alone, which no sequence here is; kept for whoever loads what is written. */
  | { readonly type: "dynamic"; readonly factor: number }
  | {
      readonly type: "llama3";
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalPositions: number;
    }
  | {
      readonly type: "yarn";
      readonly factor: number;
      readonly originalPositions: number;
      /** Rotations over the original positions from which on a frequency stays, and up to which it is divided. */
      readonly betaFast: number;
      readonly betaSlow: number;
      /** What cosines and sines are multiplied with. */
      readonly attentionFactor: number;
    }
  | {
      readonly type: "longrope";
      readonly factor: number;
      readonly originalPositions: number;
      /** What the frequency of each pair is divided by, in texts up to the original positions and in longer ones: headWidth / 2 each. */
      readonly shortFactors: readonly number[];
      readonly longFactors: readonly number[];
      readonly attentionFactor: number;
    };

/** Layers from `fromLayer` on see only the last `tokens` tokens, the one that asks among them. */
export interface SlidingWindow {
  readonly tokens: number;
  readonly fromLayer: number;
}

export interface LlamaConfig {
  readonly architecture: LlamaArchitecture;
  readonly vocabularySize: number;
  /** Longest sequence, in tokens. */
  readonly positions: number;
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  /** A divisor of `heads`. */
  readonly keyValueHeads: number;
  /** Of one head: even, and hidden / heads but for Qwen 3. */
  readonly headWidth: number;
  /** Width between the products of the feed-forward part. */
  readonly feedForward: number;
  readonly normEpsilon: number;
  /** Standard deviation of the initial weights. */
  readonly initializerRange: number;
  readonly attentionDropout: number;
  /** Of all four products of attention, of those that make queries, keys and values (Qwen 2), or of none. */
  readonly attentionBias: "all" | "queryKeyValue" | "none";
  readonly feedForwardBias: boolean;
  /** A norm of each head's queries and one of its keys (Qwen 3). */
  readonly normsQueryAndKey: boolean;
  readonly ropeTheta: number;
  readonly ropeScaling: RopeScaling | undefined;
  readonly slidingWindow: SlidingWindow | undefined;
  /** The output head is the token embedding. */
  readonly tied: boolean;
  /** Ids of config.json that no computation here reads, for whoever loads what is written. */
  readonly specialTokens: Readonly<Record<string, number | readonly number[] | null>>;
}

const size = required(wholeNumber(1));
const least0 = required(numberThat("a number of at least 0", (value) => value >= 0 && Number.isFinite(value)));
const flag = required(truth);

export const llamaKinds: Kinds<LlamaConfig> = {
  architecture: required(oneOf(llamaArchitectures)),
  vocabularySize: size,
  positions: size,
  hidden: size,
  layers: size,
  heads: size,
  keyValueHeads: size,
  headWidth: size,
  feedForward: size,
  normEpsilon: least0,
  initializerRange: least0,
  attentionDropout: required(dropShare),
  attentionBias: required(oneOf(["all", "queryKeyValue", "none"])),
  feedForwardBias: flag,
  normsQueryAndKey: flag,
  ropeTheta: required(positive),
  ropeScaling: anObject,
  slidingWindow: anObject,
  tied: flag,
  specialTokens: required(anObject),
};

/** Tokens of the longest text before all of its positions turn otherwise; undefined: they never do. */
export const shortTextTokens = ({ ropeScaling }: LlamaConfig): number | undefined =>
  ropeScaling?.type === "longrope" ? ropeScaling.originalPositions : undefined;

/** Tokens that a layer sees, the newest ones; undefined: all. */
export const windowOf = ({ slidingWindow }: LlamaConfig, layer: number): number | undefined =>
  slidingWindow && layer >= slidingWindow.fromLayer ? slidingWindow.tokens : undefined;
