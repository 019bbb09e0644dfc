/** Sizes that a job is known to allocate at once, and which of them the size in a message may be. */
import type { CauseKind } from "./oom-cause.ts";
import type { OomPlace, PrintedSize } from "./oom-message.ts";
import type { TransformerShape } from "./shape.ts";

/** As far as it is known; sizes in elements. */
export interface KnownJob {
  readonly parameters: number | undefined;
  readonly ranks: number | undefined;
  readonly shape: TransformerShape | undefined;
  readonly microBatch: number | undefined;
  readonly seqLength: number | undefined;
  /** Bytes of a parameter in training: 2 or 4. */
  readonly elementBytes: number;
  readonly reduceElements: number;
  readonly overlapComm: boolean;
}

export interface Quantity {
  readonly kind: CauseKind;
  readonly name: string;
  /** With its numbers. */
  readonly formula: string;
  readonly bytes: number;
}

export interface Candidate extends Quantity {
  /** Of the size, by which the two differ; 0: equal as far as it was printed. */
  readonly difference: number;
}

export function quantitiesOf(job: KnownJob): Quantity[] {
  return [...stateQuantities(job), ...bucketQuantities(job), ...shapeQuantities(job)];
}

function stateQuantities({ parameters: psi, ranks, elementBytes: e }: KnownJob): Quantity[] {
  if (psi === undefined) return [];
  const whole = (kind: CauseKind, name: string, each: number): Quantity => ({
    ...{ kind, name, bytes: each * psi, formula: `${each} x ${psi}` },
  });
  const all: Quantity[] = [
    whole("loading", `all parameters (or all gradients) in ${8 * e} bits`, e),
    ...(e === 2 ? [whole("loading", "all parameters (or all gradients) in fp32", 4)] : []),
  ];
  if (ranks === undefined) return all;
  if (ranks === 1)
    return [
      ...all,
      whole("optimizer states", "all optimizer states of Adam", 12),
      whole("optimizer states", "both moments of Adam", 8),
    ];
  const part = (kind: CauseKind, name: string, each: number): Quantity => ({
    ...{ kind, name, bytes: (each * psi) / ranks, formula: `${each} x ${psi} / ${ranks}` },
  });
  return [
    ...all,
    part("gradients", `a rank's part of parameters or gradients in ${8 * e} bits`, e),
    part("optimizer states", "a rank's part of the fp32 master copy, or of one moment", 4),
    part("optimizer states", "a rank's part of both moments", 8),
    part("optimizer states", "a rank's part of all optimizer states of Adam", 12),
    whole("optimizer states", "the whole fp32 master copy and both moments", 12),
  ];
}

function bucketQuantities({ reduceElements, elementBytes, overlapComm }: KnownJob): Quantity[] {
  const one = reduceElements * elementBytes;
  return [
    { kind: "bucket", name: "reduce_bucket_size", formula: `${reduceElements} x ${elementBytes}`, bytes: one },
    ...(overlapComm
      ? [
          {
            ...{ kind: "bucket" as const, name: "both buckets of overlap_comm" },
            ...{ formula: `2 x ${reduceElements} x ${elementBytes}`, bytes: 2 * one },
          },
        ]
      : []),
  ];
}

function shapeQuantities({ shape, microBatch: m, seqLength, elementBytes: e }: KnownJob): Quantity[] {
  if (shape === undefined) return [];
  const { hidden: h, vocabulary: v, feedForward: f, heads } = shape;
  const of = (kind: CauseKind, name: string, ...factors: number[]): Quantity => ({
    kind,
    name,
    formula: factors.join(" x "),
    bytes: factors.reduce((product, factor) => product * factor, 1),
  });
  const weights = [
    of("embedding", `the token embedding in ${8 * e} bits`, v, h, e),
    ...(e === 2 ? [of("embedding", "the token embedding (or its gradient) in fp32", v, h, 4)] : []),
    of("gathered parameters", `one matrix of the feed-forward part in ${8 * e} bits`, h, f, e),
  ];
  const t = seqLength ?? shape.positions;
  if (m === undefined) return weights;
  return [
    ...weights,
    of("logits", `logits in ${8 * e} bits`, m, t, v, e),
    ...(e === 2 ? [of("logits", "logits in fp32 (or their gradient)", m, t, v, 4)] : []),
    of("attention", `attention scores of a layer in ${8 * e} bits`, m, heads, t, t, e),
    ...(e === 2 ? [of("attention", "attention scores of a layer in fp32 (softmax)", m, heads, t, t, 4)] : []),
    of("activations", `one feed-forward activation in ${8 * e} bits`, m, t, f, e),
    of("activations", `one hidden state in ${8 * e} bits`, m, t, h, e),
  ];
}

const mib = 2 ** 20;
/** PyTorch takes memory from CUDA in blocks of these sizes for tensors below 1 and 10 MiB, and in steps of 2 MiB for all larger ones. */
const smallBlocks: readonly (readonly [belowBytes: number, blockBytes: number])[] = [
  [mib, 2 * mib],
  [10 * mib, 20 * mib],
];

/** True for a size that says nothing of the tensor: PyTorch asks for the same block for all small ones. */
export const isSmallBlock = ({ bytes }: PrintedSize): boolean => smallBlocks.some(([, block]) => block === bytes);

function asRequested(bytes: number, place: OomPlace): number {
  if (place !== "device") return bytes;
  const block = smallBlocks.find(([below]) => bytes < below)?.[1];
  return block ?? Math.ceil(bytes / (2 * mib)) * 2 * mib;
}

/** Most that two sizes which are one may differ by: tensors are padded, and models have a few parameters more than is said. */
const tolerance = 0.02;
const mostCandidates = 6;

/** The nearest first; those that the traceback speaks of before others. */
export function matchingQuantities(
  tried: PrintedSize,
  place: OomPlace,
  quantities: readonly Quantity[],
  kind: CauseKind | undefined,
): Candidate[] {
  if (place === "device" && isSmallBlock(tried)) return [];
  const matches = quantities.flatMap((quantity) => {
    const off = Math.abs(asRequested(quantity.bytes, place) - tried.bytes);
    if (off > Math.max(tried.slackBytes, tolerance * tried.bytes)) return [];
    return [{ ...quantity, difference: off <= tried.slackBytes ? 0 : off / tried.bytes }];
  });
  const other = ({ kind: own }: Candidate): number => Number(own !== kind);
  return matches.sort((a, b) => other(a) - other(b) || a.difference - b.difference).slice(0, mostCandidates);
}
