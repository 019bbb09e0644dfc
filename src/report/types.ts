/** What reports are made of: plain figures that whoever runs a plan fills in. */
import type { MemoryKind, MemorySnapshot } from "../device/ledger.ts";
import type { TrafficKind, TrafficSnapshot } from "../device/traffic.ts";

/** Bytes between two steps, and the most within one. */
export interface MemoryFigures {
  readonly atRestBytes: number;
  readonly peakBytes: number;
}

/**
 * One tier of one rank. Kinds reach their peaks at different moments, so `total.peakBytes` is at most the sum of the kinds'.
 */
export interface MemoryByKind {
  readonly kinds: Readonly<Record<MemoryKind, MemoryFigures>>;
  readonly total: MemoryFigures;
}

/** Formula beside ledger, for one rank's device memory. */
export interface RankMemory {
  readonly expected: MemoryByKind;
  readonly measured: MemoryByKind;
}

/** Elements of one step. */
export interface TrafficElements {
  readonly sent: number;
  readonly received: number;
}

export type ExpectedTraffic = Readonly<Partial<Record<TrafficKind, TrafficElements>>>;

export interface RankTraffic {
  readonly expected: ExpectedTraffic;
  readonly measured: TrafficSnapshot;
}

/** What a rank's ledgers held at the end of a step. */
export interface RankStep {
  readonly memory: MemorySnapshot;
  readonly traffic: TrafficSnapshot;
  /** Floating-point operations of the step. */
  readonly operations: number;
}

/** One attempted step. */
export interface StepSummary {
  /** From 1. */
  readonly step: number;
  readonly loss: number;
  /** Before clipping; null when the step was skipped. */
  readonly gradNorm: number | null;
  /** The one that this update used. */
  readonly learningRate: number;
  readonly lossScale: number;
  /** The update was left out because a gradient was not finite. */
  readonly skipped: boolean;
  readonly tokensPerSecond: number;
}
