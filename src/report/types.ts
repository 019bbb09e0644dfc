/** What reports are made of: the ledgers of a run, beside what was expected of them. */
import type { MemoryKind, MemorySnapshot, Tier } from "../device/ledger.ts";
import type { TrafficSnapshot } from "../device/traffic.ts";
import type { TrafficTerm } from "../plan/expected.ts";
import type { StepRecord } from "../zero/record.ts";

/** One attempted step, without the ranks' ledgers. */
export interface StepSummary extends Omit<StepRecord, "seconds" | "phaseSeconds" | "ranks"> {
  /** Of all ranks together. */
  readonly tokensPerSecond: number;
  /** Undefined: phases were not waited for, so their times mean nothing. */
  readonly phaseSeconds: StepRecord["phaseSeconds"] | undefined;
  /** After this step, where it was measured then. */
  readonly validationLoss?: number | undefined;
  /** Made after this step, where they were asked for. */
  readonly samples?: readonly { readonly prompt: string; readonly text: string | null }[] | undefined;
}

/** One rank's memory in all tiers. */
export interface RankMemory {
  /** Bytes at rest by ZeRO's formulas, for the tiers and kinds that have one. Others rest as forecast. */
  readonly formula: Readonly<Partial<Record<Tier, Readonly<Partial<Record<MemoryKind, number>>>>>>;
  /** A step of the same job on the simulated device. */
  readonly forecast: MemorySnapshot;
  readonly measured: MemorySnapshot;
}

/** One rank's traffic in a step. */
export interface RankTraffic {
  /** ZeRO's formulas, term by term. Collectives without a term are expected as forecast. */
  readonly terms: readonly TrafficTerm[];
  readonly forecast: TrafficSnapshot;
  readonly measured: TrafficSnapshot;
}
