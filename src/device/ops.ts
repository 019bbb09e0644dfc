/**
 * The op table: every operation a device can be asked for, with its fields in wire order. One row serves four readers:
 * the types of `device.issue`, the encoding for the native core (which reads the same fields in the same order, see
 * native/runtime/ops.cc), the count of floating-point operations, and the simulated device's cost.
 *
 * Field kinds: `size` a non-negative integer; `real` a number; `flag` a boolean; `dtype` a DType; `key` a safe integer that only
 * names random numbers (a Philox key or counter); `span` device memory; `span?` device memory or null; `segments` pieces of a collective.
 */
import type { DType } from "./dtype.ts";

/** Native memory: a region and a byte offset into it. */
export interface Span {
  readonly region: number;
  readonly offset: number;
}

/**
 * One piece of a collective over a flat buffer of world x `stride` elements in which rank r owns [r * stride, (r + 1) * stride):
 * elements [start, start + count) of every rank's range. `whole` is the first element of the flat buffer; `own` is this rank's
 * element `start` (it may lie inside `whole`). Reduce-scatter reads `whole` of every rank and writes `own`; all-gather reads
 * `own` of every rank and writes `whole`.
 */
export interface Segment {
  readonly whole: Span;
  readonly stride: number;
  readonly start: number;
  readonly count: number;
  readonly own: Span;
}

export type FieldKind = "size" | "real" | "flag" | "dtype" | "key" | "span" | "span?" | "segments";

interface FieldTypes {
  size: number;
  real: number;
  flag: boolean;
  dtype: DType;
  key: number;
  span: Span;
  "span?": Span | null;
  segments: readonly Segment[];
}

/** What attention's forward and backward share. */
const attentionFields = {
  batch: "size",
  seq: "size",
  heads: "size",
  kvHeads: "size",
  headDim: "size",
  scale: "real",
  dtype: "dtype",
  q: "span",
  k: "span",
  v: "span",
  qStride: "size",
  kvStride: "size",
  out: "span",
  outStride: "size",
  lse: "span",
  /** At least 1: keys that a query sees, its own the last of them; all before it where that is as many as there are. */
  window: "size",
  dropProbability: "real",
  dropKey: "key",
  firstSample: "key",
} as const;

/** What every optimizer rule shares: fp32 masters, gradients, and the 16-bit copy to write (or null). States are fp32. */
const updateFields = {
  count: "size",
  master: "span",
  gradientType: "dtype",
  gradient: "span",
  parameterType: "dtype",
  parameter: "span?",
  gradientScale: "real",
  learningRate: "real",
  weightDecay: "real",
} as const;

/** Fields in wire order. `scratch`, where an op has it, is filled in by the device and not given by callers. */
export const opFields = {
  fill: { count: "size", dtype: "dtype", value: "real", dst: "span" },
  copy: { bytes: "size", src: "span", dst: "span" },
  /** `bytes` of each of `rows` rows; strides are in bytes. */
  copyRows: { rows: "size", bytes: "size", srcStride: "size", dstStride: "size", src: "span", dst: "span" },
  cast: { count: "size", srcType: "dtype", dstType: "dtype", src: "span", dst: "span" },
  initNormal: {
    count: "size",
    dtype: "dtype",
    key: "key",
    firstElement: "key",
    mean: "real",
    std: "real",
    dst: "span",
  },
  initUniform: {
    count: "size",
    dtype: "dtype",
    key: "key",
    firstElement: "key",
    low: "real",
    high: "real",
    dst: "span",
  },
  matmul: {
    m: "size",
    n: "size",
    k: "size",
    dtype: "dtype",
    a: "span",
    aRowStride: "size",
    aDepthStride: "size",
    b: "span",
    bRowStride: "size",
    bDepthStride: "size",
    c: "span",
    ldc: "size",
    cType: "dtype",
    accumulate: "flag",
    bias: "span?",
    biasType: "dtype",
    gelu: "flag",
    preActivation: "span?",
    scratch: "span?",
  },
  /** `keys` >= seq: rows of keys and values of each sample; the queries stand at the last seq of them. */
  attention: { ...attentionFields, keys: "size", scratch: "span?" },
  attentionBackward: {
    ...attentionFields,
    dOut: "span",
    dOutStride: "size",
    dq: "span",
    dk: "span",
    dv: "span",
    dqStride: "size",
    dkvStride: "size",
    scratch: "span?",
  },
  layerNorm: {
    rows: "size",
    cols: "size",
    dtype: "dtype",
    epsilon: "real",
    x: "span",
    gamma: "span",
    beta: "span",
    y: "span",
    mean: "span",
    rstd: "span",
  },
  layerNormBackward: {
    rows: "size",
    cols: "size",
    dtype: "dtype",
    dy: "span",
    x: "span",
    gamma: "span",
    mean: "span",
    rstd: "span",
    dx: "span",
    accumulateInput: "flag",
    dgamma: "span?",
    dbeta: "span?",
    accumulateParameters: "flag",
    scratch: "span?",
  },
  gelu: { count: "size", dtype: "dtype", x: "span", y: "span" },
  geluBackward: { count: "size", dtype: "dtype", dy: "span", x: "span", dx: "span" },
  add: { count: "size", dtype: "dtype", a: "span", b: "span", out: "span" },
  scale: { count: "size", dtype: "dtype", x: "span", factor: "real", out: "span" },
  multiply: { count: "size", dtype: "dtype", a: "span", b: "span", out: "span" },
  embedding: {
    rows: "size",
    cols: "size",
    vocabulary: "size",
    dtype: "dtype",
    ids: "span",
    table: "span",
    out: "span",
    accumulate: "flag",
  },
  embeddingBackward: {
    rows: "size",
    cols: "size",
    vocabulary: "size",
    dtype: "dtype",
    ids: "span",
    dy: "span",
    dtable: "span",
    accumulate: "flag",
    scratch: "span?",
  },
  columnSum: {
    rows: "size",
    cols: "size",
    ld: "size",
    dtype: "dtype",
    x: "span",
    out: "span",
    accumulate: "flag",
    scratch: "span?",
  },
  crossEntropy: {
    rows: "size",
    cols: "size",
    ld: "size",
    dtype: "dtype",
    logits: "span",
    targets: "span",
    rowLoss: "span",
    gradient: "flag",
    gradientScale: "real",
  },
  sum: { count: "size", x: "span", factor: "real", dst: "span", accumulate: "flag" },
  dropout: {
    count: "size",
    dtype: "dtype",
    x: "span",
    out: "span",
    probability: "real",
    key: "key",
    firstElement: "key",
  },
  rmsNorm: {
    rows: "size",
    cols: "size",
    dtype: "dtype",
    epsilon: "real",
    x: "span",
    gamma: "span",
    y: "span",
    rstd: "span",
  },
  rmsNormBackward: {
    rows: "size",
    cols: "size",
    dtype: "dtype",
    dy: "span",
    x: "span",
    gamma: "span",
    rstd: "span",
    dx: "span",
    accumulateInput: "flag",
    dgamma: "span?",
    accumulateParameter: "flag",
    scratch: "span?",
  },
  /** Row r of heads x headDim stands at place r % places of `angles`: fp32 [places, headDim], cosines of all pairs, then sines. */
  rope: {
    rows: "size",
    places: "size",
    heads: "size",
    headDim: "size",
    dtype: "dtype",
    x: "span",
    angles: "span",
    inverse: "flag",
    y: "span",
  },
  siluMultiply: { count: "size", dtype: "dtype", gate: "span", up: "span", y: "span" },
  siluMultiplyBackward: {
    count: "size",
    dtype: "dtype",
    dy: "span",
    gate: "span",
    up: "span",
    dgate: "span",
    dup: "span",
  },
  adam: {
    ...updateFields,
    firstMoment: "span",
    secondMoment: "span",
    beta1: "real",
    beta2: "real",
    epsilon: "real",
    correction1: "real",
    correction2: "real",
    decoupled: "flag",
  },
  lion: { ...updateFields, firstMoment: "span", beta1: "real", beta2: "real" },
  /** `firstMoment` (null: no momentum) becomes momentum * itself + gradientShare * the gradient. */
  sgd: { ...updateFields, firstMoment: "span?", momentum: "real", gradientShare: "real", nesterov: "flag" },
  /** `secondMoment` is the sum of squares without `initialSum`, which is added to it where it is used. */
  adagrad: { ...updateFields, secondMoment: "span", epsilon: "real", initialSum: "real" },
  /** `out`: two fp64, the sum of squares and the number of non-finite elements; added to what it holds, block by block, or overwritten. */
  squareSum: {
    count: "size",
    dtype: "dtype",
    x: "span",
    block: "size",
    out: "span",
    accumulate: "flag",
    scratch: "span?",
  },
  /** dst (+)= factor * src, rounded once: how a produced gradient joins a resting one of another dtype. */
  accumulate: {
    count: "size",
    srcType: "dtype",
    dstType: "dtype",
    src: "span",
    dst: "span",
    factor: "real",
    accumulate: "flag",
  },
  // A reduction that adds to its destination rounds the sum to the destination's type first: so the bits do not depend on
  // whether it is added here or travels to another memory before it is. `tag` names the call (the sender keeps the words); calls whose tags differ between ranks are an error.
  reduceScatter: {
    group: "size",
    tag: "size",
    srcType: "dtype",
    dstType: "dtype",
    factor: "real",
    accumulate: "flag",
    segments: "segments",
  },
  allGather: { group: "size", tag: "size", dtype: "dtype", segments: "segments" },
  broadcast: { group: "size", tag: "size", bytes: "size", root: "size", data: "span" },
  barrier: { group: "size", tag: "size" },
  /** Between the host and the disk. Offset, bytes and the span's offset are multiples of 4096; what is read was written as it is read (see Swap). */
  diskRead: { swap: "size", offset: "size", bytes: "size", dst: "span" },
  diskWrite: { swap: "size", offset: "size", bytes: "size", src: "span" },
} as const satisfies Record<string, Record<string, FieldKind>>;

export type OpName = keyof typeof opFields;
type Fields<K extends OpName> = (typeof opFields)[K];
/** What a caller gives for op `K`: every field but the scratch. */
export type OpArgs<K extends OpName> = {
  readonly [F in Exclude<keyof Fields<K>, "scratch">]: Fields<K>[F] extends FieldKind
    ? FieldTypes[Fields<K>[F]]
    : never;
};

/** Op names in wire order: an op's code is its index. */
export const opNames = Object.keys(opFields) as OpName[];
