/** What a step leaves behind: its numbers, and every rank's memory, traffic and operations (contracts 24). */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import { type MemorySnapshot, memoryKinds, optimizerParts, phases, tiers } from "../device/ledger.ts";
import { type OverlapTimes, overlappedQueues } from "../device/overlap.ts";
import { type TrafficSnapshot, trafficKinds } from "../device/traffic.ts";

export type TrainingPhase = "forward" | "backward" | "step";

export interface RankReport {
  readonly memory: MemorySnapshot;
  readonly traffic: TrafficSnapshot;
  /** Floating-point operations of the model's forward and backward passes. */
  readonly operations: number;
  /** Of what ended since the record before (docs/trace.md); zeros where all model states live on the device. */
  readonly overlap: OverlapTimes;
}

export interface StepRecord {
  /** Attempted steps, from 1. */
  readonly step: number;
  /** Mean over the target tokens of the global batch. */
  readonly loss: number;
  /** Those that counted. */
  readonly targets: number;
  /** Before clipping; null when the step was skipped. */
  readonly gradNorm: number | null;
  /** What this update used, or would have used. */
  readonly learningRate: number;
  /** What this step's backward passes started from; 1 where the loss is not scaled. */
  readonly lossScale: number;
  /** Nothing was updated, since something was not finite. */
  readonly skipped: boolean;
  /** Of a skipped step: what was not finite. */
  readonly reason: string | undefined;
  /** Wall time since the step's first forward began. */
  readonly seconds: number;
  /** Its parts. Each phase is waited for with `wall_clock_breakdown` only; otherwise work goes on while the next one begins. */
  readonly phaseSeconds: Readonly<Record<TrainingPhase, number>>;
  readonly ranks: readonly RankReport[];
}

/** A rank's ledgers since the step began. */
export const reportOf = (device: Device): RankReport => ({
  memory: device.ledger.snapshot(),
  traffic: device.traffic.snapshot(),
  operations: device.traffic.operations,
  overlap: device.timeline.takeOverlap(),
});

/** Every number of a report in a fixed order, so that ranks can exchange reports as numbers. */
const paths: readonly (readonly string[])[] = [
  ...tiers.flatMap((tier) =>
    [...memoryKinds, ...optimizerParts].flatMap((kind) =>
      ["current", "peak"].map((which) => ["memory", tier, kind, which]),
    ),
  ),
  ...phases.map((phase) => ["memory", "peakByPhase", phase]),
  ...tiers.map((tier) => ["memory", "peakByTier", tier]),
  ...memoryKinds.map((kind) => ["memory", "atPeak", kind]),
  ...trafficKinds.flatMap((kind) =>
    ["calls", "elementsSent", "bytesSent", "elementsReceived", "bytesReceived"].map((f) => ["traffic", kind, f]),
  ),
  ["operations"],
  ...overlappedQueues.flatMap((queue) => ["seconds", "waitedSeconds"].map((f) => ["overlap", queue, f])),
];

type Tree = { [key: string]: Tree | number };

function pack(report: RankReport): Float64Array {
  return Float64Array.from(paths, (path) => {
    let at: Tree | number = report as unknown as Tree;
    for (const key of path) at = (at as Tree)[key]!;
    return at as number;
  });
}

function unpack(values: Float64Array): RankReport {
  const root: Tree = {};
  for (const [i, path] of paths.entries()) {
    let at = root;
    for (const key of path.slice(0, -1)) {
      at[key] ??= {};
      at = at[key] as Tree;
    }
    at[path.at(-1)!] = values[i]!;
  }
  return root as unknown as RankReport;
}

/** All ranks' reports, in rank order, on every rank. */
export async function exchangeReports(group: ProcessGroup, own: RankReport): Promise<RankReport[]> {
  const read = new Map<Float64Array, RankReport>();
  return (await group.exchange(pack(own), "reports")).map((values) => {
    const known = read.get(values) ?? unpack(values);
    read.set(values, known);
    return known;
  });
}
