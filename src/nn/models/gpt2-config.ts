/** The shape of a GPT-2 and the published sizes (Radford et al., "Language Models are Unsupervised Multitask Learners", table 2). */

import { dropShare, type Kinds, numberThat, required, truth, wholeNumber } from "../../errors/options.ts";

export interface Gpt2Config {
  readonly vocabularySize: number;
  /** Longest sequence, in tokens. */
  readonly positions: number;
  /** Width of the residual stream; a multiple of `heads`. */
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly layerNormEpsilon: number;
  /** Standard deviation of the initial weights. */
  readonly initializerRange: number;
  readonly embeddingDropout: number;
  readonly attentionDropout: number;
  readonly residualDropout: number;
  /** The output head is the token embedding. */
  readonly tied: boolean;
}

const size = required(wholeNumber(1));
const share = required(dropShare);
const least0 = required(numberThat("a number of at least 0", (value) => value >= 0 && Number.isFinite(value)));

export const gpt2Kinds: Kinds<Gpt2Config> = {
  vocabularySize: size,
  positions: size,
  hidden: size,
  layers: size,
  heads: size,
  layerNormEpsilon: least0,
  initializerRange: least0,
  embeddingDropout: share,
  attentionDropout: share,
  residualDropout: share,
  tied: required(truth),
};

const published = {
  vocabularySize: 50257,
  positions: 1024,
  layerNormEpsilon: 1e-5,
  initializerRange: 0.02,
  embeddingDropout: 0.1,
  attentionDropout: 0.1,
  residualDropout: 0.1,
  tied: true,
} as const;

/** What GPTs of other sizes have as GPT-2 has it; without dropout, as those are trained that see each text once. */
export const plainGpt2 = {
  layerNormEpsilon: 1e-5,
  initializerRange: 0.02,
  embeddingDropout: 0,
  attentionDropout: 0,
  residualDropout: 0,
  tied: true,
} as const;

/** Published models by the name that Hugging Face gives them. */
export const gpt2Configs = {
  gpt2: { ...published, hidden: 768, layers: 12, heads: 12 },
  "gpt2-medium": { ...published, hidden: 1024, layers: 24, heads: 16 },
  "gpt2-large": { ...published, hidden: 1280, layers: 36, heads: 20 },
  "gpt2-xl": { ...published, hidden: 1600, layers: 48, heads: 25 },
} as const satisfies Readonly<Record<string, Gpt2Config>>;

export type Gpt2Name = keyof typeof gpt2Configs;
