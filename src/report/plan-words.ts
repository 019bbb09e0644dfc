/** Words for placements, shortages and times that all reports of plans use. */
import type { OffloadDevice } from "../config/types.ts";
import type { OverlappedQueue } from "../device/overlap.ts";
import type { Placement } from "../plan/placement.ts";
import type { PlanRow } from "../planner/answer.ts";
import type { Shortage } from "../planner/fit.ts";
import type { StepTime } from "../planner/step-time.ts";
import type { PlanSubject } from "../planner/subject.ts";
import { formatDuration } from "./numbers.ts";

const placeOf: Readonly<Record<OffloadDevice, string>> = { none: "the device", cpu: "the host", nvme: "disk" };

/** "stage 1", "stage 2, optimizer on the host", "stage 3, optimizer and parameters on disk". */
export function placementWords({ stage, offloadOptimizer, offloadParam }: Placement): string {
  if (offloadOptimizer === "none") return `stage ${stage}`;
  if (offloadParam === offloadOptimizer)
    return `stage ${stage}, optimizer and parameters on ${placeOf[offloadOptimizer]}`;
  const parameters = offloadParam === "none" ? "" : `, parameters on ${placeOf[offloadParam]}`;
  return `stage ${stage}, optimizer on ${placeOf[offloadOptimizer]}${parameters}`;
}

const shortageWords: Readonly<Record<Shortage, string>> = {
  device: "device",
  host: "host",
  disk: "disk",
  together: "memory",
};

/** "device, host"; empty where there is enough of everything. */
export const shortWords = (short: readonly Shortage[]): string => short.map((name) => shortageWords[name]).join(", ");

export const fitWords = (short: readonly Shortage[]): string =>
  short.length === 0 ? "yes" : `no: ${shortWords(short)}`;

const queueWords: Readonly<Record<"compute" | OverlappedQueue, string>> = {
  compute: "compute",
  collective: "collectives",
  down: "copies down",
  up: "copies up",
  update: "host update",
  diskRead: "disk reads",
  diskWrite: "disk writes",
};

export const queueName = (queue: "compute" | OverlappedQueue): string => queueWords[queue];

/** "84.2 ms", "1.25 s", "3 min 20 s". */
export function secondsText(seconds: number): string {
  if (seconds < 0.9995) return `${(seconds * 1000).toPrecision(3)} ms`;
  return seconds < 59.95 ? `${seconds.toPrecision(3)} s` : formatDuration(seconds);
}

/** "512", "7.76 k", "14.8 k", "8.17 M". */
export function rateText(perSecond: number): string {
  if (perSecond >= 999.5e6) return `${(perSecond / 1e9).toPrecision(3)} G`;
  if (perSecond >= 999.5e3) return `${(perSecond / 1e6).toPrecision(3)} M`;
  return perSecond >= 999.5 ? `${(perSecond / 1000).toPrecision(3)} k` : perSecond.toPrecision(3);
}

/** "2Ψ", "3Ψ", with nine micro-batches "27Ψ": what a rank sends in a step over the (N - 1)/N of Ψ that others have; "0" of one rank. */
export function communicationWords({ estimate }: PlanRow, { asked, parameters }: PlanSubject): string {
  const { ranks } = asked;
  if (ranks === 1) return "0";
  const times = (estimate.commElements * ranks) / (ranks - 1) / parameters;
  // With most parameters frozen there is little to reduce.
  const rounded = times < 0.05 ? times.toPrecision(1) : times.toFixed(times < 10 ? 1 : 0);
  return `${Number(rounded)}Ψ`;
}

/** "compute 97 %", "host update: compute waits 82 %". */
export function boundWords({ boundBy, computeSeconds, seconds }: StepTime): string {
  const share = Math.round((100 * computeSeconds) / seconds);
  return boundBy === "compute" ? `compute ${share} %` : queueWords[boundBy];
}
