/** What `shunya simulate` answers: a rank's memory by kind and phase, its traffic, a step's time and what is hidden of it. */
import { type MemorySnapshot, phases, tiers } from "../device/ledger.ts";
import { type TrafficSnapshot, trafficKinds } from "../device/traffic.ts";
import type { Placement } from "../plan/placement.ts";
import type { EngineEstimate } from "../planner/engine-estimate.ts";
import { allowedBytes, deviceAllowance, type RankRoom, shortagesOf } from "../planner/fit.ts";
import type { StepTime } from "../planner/step-time.ts";
import { renderMemoryBreakdown } from "./memory-table.ts";
import { formatBytes, formatCount, formatOperations, formatShare } from "./numbers.ts";
import { boundWords, fitWords, placementWords, queueName, rateText, secondsText } from "./plan-words.ts";
import { renderTable } from "./table.ts";
import { wrap } from "./wrap.ts";

export interface Simulated {
  readonly placement: Placement;
  readonly ranks: number;
  readonly estimate: EngineEstimate;
  readonly time: StepTime;
}

export function renderSimulation({ placement, ranks, estimate, time }: Simulated): string {
  const { memory, traffic } = estimate.foretold.report;
  const peaks = phases
    .filter((phase) => phase !== "init")
    .map((phase) => `${phase} ${formatBytes(memory.peakByPhase[phase])}`)
    .join(", ");
  return [
    wrap(
      `${placementWords(placement)[0]!.toUpperCase()}${placementWords(placement).slice(1)}; a rank of ${formatCount(ranks)}, which are all alike: their ranges are equal.`,
    ),
    renderMemoryBreakdown(estimate.foretold.plan.config.gradientAccumulation, [memory]).replace(
      /^.*\n/,
      "Memory, in a step like all later ones:\n",
    ),
    wrap(`The most on the device, by phase: ${peaks}.`),
    `Traffic in a step:\n${trafficTable(traffic)}`,
    renderTime(time),
  ].join("\n\n");
}

/** Whether a rank's memory is enough, by the rule of plan. */
export function renderFit(estimate: EngineEstimate, room: RankRoom): string {
  const { device, hostBytes, diskBytes } = estimate;
  const host = allowedBytes(room.hostBytes, room.hostSharers);
  const taken = [
    `${formatBytes(device.totalBytes)} on the device, where it may take ${formatBytes(deviceAllowance(room))}`,
    ...(hostBytes === 0 ? [] : [`${formatBytes(hostBytes)} of the host's${ofMost(host, "may take")}`]),
    ...(diskBytes === 0 ? [] : [`${formatBytes(diskBytes)} on disk${ofMost(room.diskBytes, "has")}`]),
    ...(room.togetherBytes === undefined
      ? []
      : [
          `both memories are one here, of which it may take ${formatBytes(allowedBytes(room.togetherBytes, room.hostSharers))}`,
        ]),
  ];
  return wrap(`Fits: ${fitWords(shortagesOf(estimate, room))}. A rank needs ${taken.join("; ")}.`);
}

const ofMost = (bytes: number, words: string): string =>
  Number.isFinite(bytes) ? `, where it ${words} ${formatBytes(bytes)}` : "";

function trafficTable(traffic: TrafficSnapshot): string {
  return renderTable({
    columns: [
      { header: "", align: "left" },
      { header: "calls", align: "right" },
      { header: "elements sent", align: "right" },
      { header: "bytes sent", align: "right" },
      { header: "bytes received", align: "right" },
    ],
    rows: trafficKinds
      .filter((kind) => traffic[kind].bytesSent + traffic[kind].bytesReceived > 0)
      .map((kind) => {
        const { calls, elementsSent, bytesSent, bytesReceived } = traffic[kind];
        return [
          kind,
          formatCount(calls),
          formatCount(elementsSent),
          formatBytes(bytesSent),
          formatBytes(bytesReceived),
        ];
      }),
  });
}

function renderTime(time: StepTime): string {
  const { seconds, computeSeconds, transfers, tokensPerSecond, operations } = time;
  const table = renderTable({
    columns: [
      { header: "queue", align: "left" },
      { header: "at work", align: "right" },
      { header: "hidden", align: "right" },
    ],
    rows: [
      ["compute", secondsText(computeSeconds), "-"],
      ...transfers.map(({ queue, seconds: busy, waitedSeconds }) => [
        queueName(queue),
        secondsText(busy),
        formatShare(busy - waitedSeconds, busy),
      ]),
    ],
  });
  const rate = `${rateText(tokensPerSecond)} tokens/s of all ranks, ${formatOperations(operations / seconds)}/s`;
  return `${wrap(`A step takes ${secondsText(seconds)}, bound by ${boundWords(time)}: ${rate}.`)}\n${table}`;
}

export function simulationJson({ placement, ranks, estimate, time }: Simulated, room: RankRoom): object {
  const { report, highest } = estimate.foretold;
  const { memory, traffic, operations } = report;
  return {
    ...placement,
    ranks,
    /** Ranks whose ranges differ; all are alike. */
    rankClasses: 1,
    /** What of a rank's memory is too little; empty where it fits. */
    short: shortagesOf(estimate, room),
    memory: memoryJson(memory),
    highestBytes: Object.fromEntries(tiers.map((tier) => [tier, highest[tier].bytes])),
    traffic,
    operations,
    stepSeconds: time.seconds,
    computeSeconds: time.computeSeconds,
    boundBy: time.boundBy,
    tokensPerSecond: time.tokensPerSecond,
    transfers: time.transfers.map((transfer) => ({
      ...transfer,
      hiddenShare: 1 - transfer.waitedSeconds / transfer.seconds,
    })),
  };
}

const memoryJson = ({ device, host, disk, peakByPhase, peakByTier }: MemorySnapshot): object => ({
  device,
  host,
  disk,
  peakByPhase,
  peakByTier,
});
