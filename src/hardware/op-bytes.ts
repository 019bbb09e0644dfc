/**
 * Bytes that an op reads and writes, each operand once: what an op that is bound by memory takes its time for. A sum onto
 * something reads that too.
 */
import { type DType, dtypeBytes } from "../device/dtype.ts";
import type { OpArgs, OpName } from "../device/ops.ts";

type Counter<K extends OpName> = (args: OpArgs<K>) => number;

const each = (count: number, dtype: DType, times: number): number => count * dtypeBytes[dtype] * times;

/** Of an optimizer: the gradient, the 16-bit copy where there is one, and read and written the master and each state. */
const updated = (
  a: { count: number; gradientType: DType; parameterType: DType; parameter: unknown },
  states: number,
): number =>
  a.count * (8 * (1 + states) + dtypeBytes[a.gradientType] + (a.parameter === null ? 0 : dtypeBytes[a.parameterType]));

const attentionBytes = (a: OpArgs<"attention" | "attentionBackward">, keys: number, times: number): number =>
  each(a.batch * a.headDim * (a.seq * a.heads + keys * a.kvHeads) * 2, a.dtype, times);

const counters: { readonly [K in OpName]?: Counter<K> } = {
  fill: (a) => each(a.count, a.dtype, 1),
  copy: (a) => 2 * a.bytes,
  copyRows: (a) => 2 * a.rows * a.bytes,
  cast: (a) => each(a.count, a.srcType, 1) + each(a.count, a.dstType, 1),
  initNormal: (a) => each(a.count, a.dtype, 1),
  initUniform: (a) => each(a.count, a.dtype, 1),
  // What GELU starts from is written too, where the backward pass wants it.
  matmul: (a) =>
    each((a.m + a.n) * a.k, a.dtype, 1) +
    each(a.m * a.n, a.cType, (a.accumulate ? 2 : 1) + (a.preActivation === null ? 0 : 1)),
  attention: (a) => attentionBytes(a, Math.min(a.keys, a.window + a.seq - 1), 1),
  attentionBackward: (a) => attentionBytes(a, a.seq, 2),
  layerNorm: (a) => each(a.rows * a.cols, a.dtype, 2),
  layerNormBackward: (a) => each(a.rows * a.cols, a.dtype, a.accumulateInput ? 4 : 3),
  gelu: (a) => each(a.count, a.dtype, 2),
  geluBackward: (a) => each(a.count, a.dtype, 3),
  add: (a) => each(a.count, a.dtype, 3),
  scale: (a) => each(a.count, a.dtype, 2),
  multiply: (a) => each(a.count, a.dtype, 3),
  embedding: (a) => each(a.rows * a.cols, a.dtype, a.accumulate ? 3 : 2),
  // Where it does not add, what no row reaches is set to zero.
  embeddingBackward: (a) =>
    each(a.rows * a.cols, a.dtype, 3) + (a.accumulate ? 0 : each(a.vocabulary * a.cols, a.dtype, 1)),
  columnSum: (a) => each(a.rows * a.cols, a.dtype, 1),
  crossEntropy: (a) => each(a.rows * a.cols, a.dtype, a.gradient ? 2 : 1),
  sum: (a) => 4 * a.count,
  dropout: (a) => each(a.count, a.dtype, 2),
  rmsNorm: (a) => each(a.rows * a.cols, a.dtype, 2),
  rmsNormBackward: (a) => each(a.rows * a.cols, a.dtype, a.accumulateInput ? 4 : 3),
  // The angles are read again for every sequence and head, from a cache.
  rope: (a) => each(a.rows * a.heads * a.headDim, a.dtype, 2),
  siluMultiply: (a) => each(a.count, a.dtype, 3),
  siluMultiplyBackward: (a) => each(a.count, a.dtype, 5),
  adam: (a) => updated(a, 2),
  lion: (a) => updated(a, 1),
  sgd: (a) => updated(a, a.firstMoment === null ? 0 : 1),
  adagrad: (a) => updated(a, 1),
  squareSum: (a) => each(a.count, a.dtype, 1),
  accumulate: (a) => each(a.count, a.srcType, 1) + each(a.count, a.dstType, a.accumulate ? 2 : 1),
  diskRead: (a) => a.bytes,
  diskWrite: (a) => a.bytes,
};

/** 0 for collectives, whose cost is that of their links. */
export function touchedBytes<K extends OpName>(name: K, args: OpArgs<K>): number {
  const counter = counters[name] as Counter<K> | undefined;
  return counter ? counter(args) : 0;
}
