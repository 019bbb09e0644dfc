/** A line of `--log-json`: one JSON object per attempted step. docs/log-format.md explains it to users. */

import type { MemorySnapshot, Phase, TierUsage, Usage } from "../device/ledger.ts";
import {
  type MemoryKind,
  memoryKinds,
  type OptimizerPart,
  optimizerParts,
  type Tier,
  tiers,
} from "../device/ledger.ts";
import type { TrafficSnapshot } from "../device/traffic.ts";
import type { RankReport } from "../zero/record.ts";
import { type HiddenRecord, hiddenRecord } from "./hidden.ts";
import type { StepSummary } from "./types.ts";

export type TierRecord = Readonly<Record<Exclude<MemoryKind, "optimizer">, Usage>> & {
  readonly optimizer: Usage & Readonly<Record<OptimizerPart, Usage>>;
};

export interface RankRecord {
  readonly memory: Readonly<Record<Tier, TierRecord>> & { readonly peakByPhase: Readonly<Record<Phase, number>> };
  readonly traffic: TrafficSnapshot;
  readonly operations: number;
  /** Undefined, and left out of the line, where all model states live on the device. */
  readonly hidden: HiddenRecord | undefined;
}

export interface LoggedStep extends Omit<StepSummary, "reason"> {
  /** Null where the step was not skipped. */
  readonly reason: string | null;
  /** In rank order. */
  readonly ranks: readonly RankRecord[];
}

/** @param ranks in rank order */
export function stepRecord(summary: StepSummary, ranks: readonly RankReport[]): LoggedStep {
  const logged = ranks.map(({ memory, traffic, operations, overlap }) => ({
    memory: memoryRecord(memory),
    traffic,
    operations,
    hidden: hiddenRecord(overlap),
  }));
  const { step, loss, targets, gradNorm, learningRate, lossScale, skipped, tokensPerSecond } = summary;
  const { phaseSeconds, validationLoss, samples } = summary;
  const reason = summary.reason ?? null;
  // JSON leaves out what is undefined of phaseSeconds, validationLoss and samples.
  return {
    step,
    loss,
    targets,
    gradNorm,
    learningRate,
    lossScale,
    skipped,
    reason,
    tokensPerSecond,
    phaseSeconds,
    validationLoss,
    samples,
    ranks: logged,
  };
}

/** One line, newline included. Numbers that JSON cannot hold (a loss of NaN) are written as null. */
export function renderStepRecord(step: LoggedStep): string {
  return `${JSON.stringify(step)}\n`;
}

function memoryRecord(memory: MemorySnapshot): RankRecord["memory"] {
  const [device, host, disk] = tiers.map((tier) => tierRecord(memory[tier])) as [TierRecord, TierRecord, TierRecord];
  return { device, host, disk, peakByPhase: memory.peakByPhase };
}

function tierRecord(usage: TierUsage): TierRecord {
  const kinds = Object.fromEntries(memoryKinds.map((kind) => [kind, usage[kind]])) as Record<MemoryKind, Usage>;
  const parts = Object.fromEntries(optimizerParts.map((part) => [part, usage[part]])) as Record<OptimizerPart, Usage>;
  return { ...kinds, optimizer: { ...kinds.optimizer, ...parts } };
}
