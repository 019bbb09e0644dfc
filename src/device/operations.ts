/**
 * Floating-point operations of an op, as the ledger counts them: a multiplication and an addition are two. Attention counts
 * the causal half only, and of that what a window leaves. Ops that only move data count nothing, nor do the optimizer and the gradient norm: the count is the
 * model's own work, which ZeRO never shards (the law: the same on every rank at every stage).
 */
import type { OpArgs, OpName } from "./ops.ts";

interface AttentionSizes {
  readonly batch: number;
  readonly seq: number;
  readonly heads: number;
  readonly headDim: number;
  readonly window: number;
  /** As many as queries where they are left out. */
  readonly keys?: number;
}

/** Query t sees the keys before the queries, and t + 1 more; or as many of those as the window has. */
function attentionPairs({ batch, seq, heads, headDim, window, keys = seq }: AttentionSizes): number {
  const earlier = keys - seq;
  const growing = Math.min(seq, Math.max(0, window - earlier));
  const seen = growing * earlier + (growing * (growing + 1)) / 2 + (seq - growing) * window;
  return batch * heads * headDim * seen;
}

type Counter<K extends OpName> = (args: OpArgs<K>) => number;

const counters: { readonly [K in OpName]?: Counter<K> } = {
  matmul: (a) => 2 * a.m * a.n * a.k,
  attention: (a) => 4 * attentionPairs(a), // QK' and PV
  attentionBackward: (a) => 10 * attentionPairs(a), // QK' again, dP, dV, dQ, dK
  layerNorm: (a) => 8 * a.rows * a.cols,
  layerNormBackward: (a) => 14 * a.rows * a.cols,
  gelu: (a) => 10 * a.count,
  geluBackward: (a) => 16 * a.count,
  add: (a) => a.count,
  scale: (a) => a.count,
  multiply: (a) => a.count,
  embeddingBackward: (a) => a.rows * a.cols,
  columnSum: (a) => a.rows * a.cols,
  crossEntropy: (a) => (a.gradient ? 8 : 5) * a.rows * a.cols,
  dropout: (a) => a.count,
  rmsNorm: (a) => 4 * a.rows * a.cols,
  rmsNormBackward: (a) => 11 * a.rows * a.cols,
  rope: (a) => 3 * a.rows * a.heads * a.headDim, // of a pair four products and two sums
  siluMultiply: (a) => 5 * a.count,
  siluMultiplyBackward: (a) => 13 * a.count,
};

export function operationsOf<K extends OpName>(name: K, args: OpArgs<K>): number {
  const counter = counters[name] as Counter<K> | undefined;
  return counter ? counter(args) : 0;
}
