/**
 * Activations of one transformer layer in 16-bit training, by Korthikanti et al. 2022 (section 4, Table 2): dropout masks are kept,
 * and attention's probabilities too unless they are recomputed (which a fused attention kernel comes to).
 */
export interface LayerBatch {
  /** s: tokens of a sample. */
  readonly sequence: number;
  /** b: samples of a micro-batch. */
  readonly microBatch: number;
  /** h. */
  readonly hidden: number;
  /** a: attention heads. */
  readonly heads: number;
  /** t: devices that split each layer (tensor parallelism); 1 where none do. */
  readonly tensorParallel: number;
}

/** `tensor`: only products are split over t devices; `sequence`: norms and dropout too. `selective`: attention is recomputed. */
export type ActivationScheme =
  | "tensor"
  | "tensorAndSequence"
  | "tensorSelective"
  | "tensorAndSequenceSelective"
  | "fullRecompute";

/** Bytes for each of the s b h elements between layers. @param quadratic 5 a s / h: scores, probabilities and their dropout mask */
const bytesPerElement: Readonly<Record<ActivationScheme, (t: number, quadratic: number) => number>> = {
  tensor: (t, quadratic) => 10 + (24 + quadratic) / t,
  tensorAndSequence: (t, quadratic) => (34 + quadratic) / t,
  tensorSelective: (t) => 10 + 24 / t,
  tensorAndSequenceSelective: (t) => 34 / t,
  fullRecompute: () => 2,
};

/** Bytes of a layer on one device. `tensor` with t = 1 is the plain layer: s b h (34 + 5 a s / h). */
export function layerActivationBytes(
  scheme: ActivationScheme,
  { sequence, microBatch, hidden, heads, tensorParallel }: LayerBatch,
): number {
  const quadratic = (5 * heads * sequence) / hidden;
  return sequence * microBatch * hidden * bytesPerElement[scheme](tensorParallel, quadratic);
}
