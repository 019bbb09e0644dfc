/** Exact parameter counts of decoder-only transformers, from what their architectures have. */
import type { TransformerShape } from "./shape.ts";

/** What of an architecture its parameter count depends on, beside its widths. */
export interface Architecture {
  /** Weight and bias, or a weight only. */
  readonly norm: "layer" | "rms";
  readonly normsPerLayer: 1 | 2;
  readonly attentionBias: "all" | "queryKeyValue" | "none";
  readonly feedForwardBias: boolean;
  readonly headBias: boolean;
  readonly isGated: boolean;
  readonly hasDropout: boolean;
  /** Rows of the table of positions beyond the longest sequence; undefined where positions are not learned (rotary, ALiBi). */
  readonly extraPositions: number | undefined;
  /** A norm between the embedding and the first layer (BLOOM). */
  readonly normsEmbedding: boolean;
  /** A norm of queries and one of keys in each layer, as wide as a head (Qwen3). */
  readonly normsQueryAndKey: boolean;
}

const gpt2: Architecture = {
  norm: "layer",
  normsPerLayer: 2,
  attentionBias: "all",
  feedForwardBias: true,
  headBias: false,
  isGated: false,
  hasDropout: true,
  extraPositions: 0,
  normsEmbedding: false,
  normsQueryAndKey: false,
};

const llama: Architecture = {
  ...gpt2,
  norm: "rms",
  attentionBias: "none",
  feedForwardBias: false,
  isGated: true,
  hasDropout: false,
  extraPositions: undefined,
};

/** By the `model_type` of Hugging Face's config.json. */
export const architectures = {
  gpt2,
  opt: { ...gpt2, extraPositions: 2 },
  bloom: { ...gpt2, hasDropout: false, extraPositions: undefined, normsEmbedding: true },
  gpt_neox: { ...gpt2, hasDropout: false, extraPositions: undefined },
  gptj: {
    ...gpt2,
    normsPerLayer: 1,
    attentionBias: "none",
    headBias: true,
    hasDropout: false,
    extraPositions: undefined,
  },
  falcon: {
    ...gpt2,
    normsPerLayer: 1,
    attentionBias: "none",
    feedForwardBias: false,
    hasDropout: false,
    extraPositions: undefined,
  },
  llama,
  mistral: llama,
  qwen2: { ...llama, attentionBias: "queryKeyValue" },
  qwen3: { ...llama, normsQueryAndKey: true },
} as const satisfies Readonly<Record<string, Architecture>>;

export type ArchitectureName = keyof typeof architectures;

/** Widths as a model card or a config.json has them. */
export interface Widths {
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly keyValueHeads: number;
  /** Of one head; hidden / heads but for Qwen3. */
  readonly headWidth: number;
  readonly feedForward: number;
  readonly vocabulary: number;
  readonly positions: number;
  readonly isTied: boolean;
}

export function countParameters(widths: Widths, architecture: Architecture): number {
  const { layers, hidden, vocabulary, positions, isTied } = widths;
  const { norm, headBias, extraPositions, normsEmbedding } = architecture;
  const normParameters = norm === "layer" ? 2 * hidden : hidden;
  const embeddings = vocabulary * hidden + (extraPositions === undefined ? 0 : (positions + extraPositions) * hidden);
  const head = (isTied ? 0 : vocabulary * hidden) + (headBias ? vocabulary : 0);
  const norms = normParameters * (normsEmbedding ? 2 : 1);
  return embeddings + layers * countLayer(widths, architecture, normParameters) + norms + head;
}

function countLayer(widths: Widths, architecture: Architecture, normParameters: number): number {
  const { hidden, heads, keyValueHeads, headWidth, feedForward } = widths;
  const { attentionBias, feedForwardBias, isGated, normsPerLayer, normsQueryAndKey } = architecture;
  const queries = heads * headWidth;
  const keysAndValues = 2 * keyValueHeads * headWidth;
  const biases = {
    all: queries + keysAndValues + hidden,
    queryKeyValue: queries + keysAndValues,
    none: 0,
  }[attentionBias];
  const attention = hidden * (queries + keysAndValues) + queries * hidden + biases;
  const products = isGated ? 3 : 2;
  const feedForwardBiases = feedForwardBias ? feedForward + hidden : 0;
  return (
    attention +
    products * hidden * feedForward +
    feedForwardBiases +
    normsPerLayer * normParameters +
    (normsQueryAndKey ? 2 * headWidth : 0)
  );
}

export const shapeOf = (name: string, widths: Widths, architecture: Architecture): TransformerShape => ({
  name,
  parameters: countParameters(widths, architecture),
  layers: widths.layers,
  hidden: widths.hidden,
  heads: widths.heads,
  keyValueHeads: widths.keyValueHeads,
  feedForward: widths.feedForward,
  isGated: architecture.isGated,
  vocabulary: widths.vocabulary,
  positions: widths.positions,
  isTied: widths.isTied,
  hasDropout: architecture.hasDropout,
});
