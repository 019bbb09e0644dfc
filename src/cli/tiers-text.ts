/** What `shunya train` says of tiers: where states live and how the disk is used, and afterwards what went there and back. */
import type { ResolvedConfig } from "../config/types.ts";
import { type Tier, tiers } from "../device/ledger.ts";
import type { LockReport } from "../device/locked-memory.ts";
import { requestsInFlight } from "../device/swap.ts";
import { expectedStates } from "../plan/expected.ts";
import type { Plan } from "../plan/plan.ts";
import { formatBytes, formatCount } from "../report/numbers.ts";
import { renderTable } from "../report/table.ts";
import type { Forecast } from "../zero/forecast.ts";
import type { StepRecord } from "../zero/record.ts";
import type { TrainJob } from "./job.ts";

/** Rows of the opening. */
export function memoryRows(job: TrainJob, { highest }: Forecast): [label: string, text: string][] {
  const budgetOf = (bytes: number | undefined): string =>
    bytes === undefined ? "" : ` of a budget of ${formatBytes(bytes)}`;
  const { device, host, disk } = highest;
  const rows: [string, string][] = [
    ["memory", `${formatBytes(device.bytes)} of device memory on a rank at the peak${budgetOf(job.deviceMemoryBytes)}`],
  ];
  if (host.bytes > 0)
    rows.push(["", `${formatBytes(host.bytes)} of host memory on a rank at the peak${budgetOf(job.hostMemoryBytes)}`]);
  if (host.bytes > 0 && job.deviceMemoryBytes === undefined)
    rows.push(["", "(both are this machine's memory here, each with a budget of its own)"]);
  if (disk.bytes > 0) rows.push(["", `${formatBytes(disk.bytes)} on disk for each rank`]);
  return rows;
}

/** Empty unless an update is seen a step late. */
export function delayRows({ config }: Plan): [label: string, text: string][] {
  const from = config.delayedUpdateFrom;
  if (from === undefined) return [];
  const since = from === 1 ? "" : ` from step ${formatCount(from)} on`;
  return [["updates", `delayed${since}: they run beside the next step and are seen one step late`]];
}

/** How the disk is asked. Empty where nothing goes there. */
export function diskRows({ config, sizes }: Plan, { highest }: Forecast): [label: string, text: string][] {
  const { disk, offloadOptimizer, offloadParam } = config;
  if (highest.disk.bytes === 0) return [];
  const yes = (is: boolean, text: string): string => (is ? text : `not ${text}`);
  const rows = [
    ...disk.folders.map((folder) => `${folder}: a folder of each rank, gone at the end`),
    ...(offloadOptimizer === "nvme"
      ? [
          `states in sub-groups of ${formatCount(sizes.subGroup.elements)} elements, ${disk.stateBuffers} in memory at once,`,
          `${yes(disk.pipelineRead, "read ahead")}, ${yes(disk.pipelineWrite, "written behind")}`,
        ]
      : []),
    ...(offloadParam === "nvme" ? [`a unit's parameters at a time, ${disk.parameterBuffers} in memory at once`] : []),
    `requests of ${formatBytes(disk.blockBytes)}, ${requestsInFlight(disk)} at once each way; ${yes(disk.verify, "checked by checksums")};`,
    "past the page cache where the file system allows it",
  ];
  return rows.map((text, i) => [i === 0 ? "disk" : "", text]);
}

const usesTiers = ({ offloadOptimizer, offloadParam }: ResolvedConfig): boolean =>
  offloadOptimizer !== "none" || offloadParam !== "none";

/** A table of where model states rest; undefined where all of them are on the device. */
export function renderStates(plan: Plan): string | undefined {
  if (!usesTiers(plan.config)) return undefined;
  const byTier = Object.fromEntries(tiers.map((tier) => [tier, expectedStates(plan, tier)])) as Record<
    Tier,
    ReturnType<typeof expectedStates>
  >;
  const kinds = ["parameters", "gradients", "optimizer"] as const;
  const cell = (tier: Tier, kind: (typeof kinds)[number]): string => {
    const { bytes } = byTier[tier][kind];
    return bytes === 0 ? "-" : formatBytes(bytes);
  };
  return renderTable({
    columns: [
      { header: "at rest on each rank", align: "left" },
      ...tiers.map((tier) => ({ header: tier, align: "right" as const })),
    ],
    rows: kinds.map((kind) => [kind, ...tiers.map((tier) => cell(tier, kind))]),
  });
}

/** "Page-locked: ..."; empty where nothing was asked for. */
export function lockedLines({ pinMemory }: ResolvedConfig, locked: LockReport | undefined): string[] {
  if (locked === undefined || !(pinMemory.optimizer || pinMemory.parameters)) return [];
  const refused = locked.refusedBytes > 0 ? ` (${formatBytes(locked.refusedBytes)} refused)` : "";
  return [`Page-locked host memory of rank 0: ${formatBytes(locked.lockedBytes)}${refused}.`];
}

/** What the drives did, of all ranks together; empty where they did nothing. */
export function diskLines(records: readonly StepRecord[]): string[] {
  const reports = records.flatMap(({ ranks }) => ranks);
  const sum = (of: (report: (typeof reports)[number]) => number): number => reports.reduce((all, r) => all + of(r), 0);
  const read = sum(({ traffic }) => traffic.diskRead.bytesReceived);
  const written = sum(({ traffic }) => traffic.diskWrite.bytesSent);
  if (read + written === 0) return [];
  const ranks = records[0]!.ranks.length;
  // What lies there was written once before the first step.
  const first = records[0]!.ranks.reduce((all, { memory }) => all + memory.peakByTier.disk, 0);
  const rate = (bytes: number, queue: "diskRead" | "diskWrite"): string => {
    const seconds = sum(({ overlap }) => overlap[queue].seconds) / ranks;
    return seconds > 0 ? ` (${formatBytes(bytes / seconds)}/s while busy)` : "";
  };
  return [
    `Disk, all ranks, a step: ${formatBytes(read / records.length)} read${rate(read, "diskRead")},`,
    `  ${formatBytes(written / records.length)} written${rate(written, "diskWrite")}.`,
    `Written to disk in all: ${formatBytes(first + written)}, ${formatBytes(first)} of it before the first step (drives wear).`,
  ];
}
