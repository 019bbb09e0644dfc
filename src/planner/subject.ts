/** What a plan is about: a job on a machine, and the same job with some things changed. */
import type { TimelineSink } from "../device/timeline.ts";
import type { Placement } from "../plan/placement.ts";
import type { Estimate, EstimateOf } from "./estimate.ts";
import type { RankRoom } from "./fit.ts";
import type { BatchSplit } from "./settings.ts";
import type { StepTime } from "./step-time.ts";

/** What may be changed where nothing fits, and what inverse questions ask for. */
export interface Variant {
  readonly ranks: number;
  readonly seqLength: number;
  /** Activation checkpointing. */
  readonly checkpointing: boolean;
  /** Undefined: the model that was asked about. */
  readonly parameters?: number;
}

export interface PlanSubject {
  /** As it was asked about. */
  readonly asked: Variant;
  /** Of the model that was asked about. */
  readonly parameters: number;
  /** Sequences of all ranks in a step; undefined: as many as fit. */
  readonly trainBatch: number | undefined;
  /** At which the stages are compared; undefined: the least. */
  readonly microBatch: number | undefined;
  readonly estimateOf: (variant: Variant) => EstimateOf;
  readonly roomOf: (variant: Variant) => RankRoom;
  /** Undefined where an engine's times are not known. */
  readonly timeOf: TimeOf | undefined;
}

export type TimeOf = (
  variant: Variant,
  placement: Placement,
  batch: BatchSplit,
  sink?: TimelineSink,
) => Promise<{ readonly estimate: Estimate; readonly time: StepTime } | undefined>;

/** More than a world of any size has. */
const manyRanks = 2 ** 20;

/** The fewest ranks from `ranks` on that fill their nodes; up to one node, any number does. */
export function wholeNodes({ roomOf, asked }: Pick<PlanSubject, "roomOf" | "asked">, ranks: number): number {
  const node = roomOf({ ...asked, ranks: manyRanks }).hostSharers;
  return ranks <= node ? ranks : node * Math.ceil(ranks / node);
}
