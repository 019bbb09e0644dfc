/** The answer of `shunya plan` for a terminal. */
import type { PlanAnswer, PlanRow } from "../planner/answer.ts";
import { type Estimate, modelStatesBytes } from "../planner/estimate.ts";
import { allowedBytes, deviceAllowance, type RankRoom, shortagesOf } from "../planner/fit.ts";
import type { PlanSubject } from "../planner/subject.ts";
import { sizeText } from "./inverse-report.ts";
import { formatBytes, formatCount, formatMany } from "./numbers.ts";
import {
  boundWords,
  communicationWords,
  fitWords,
  placementWords,
  queueName,
  rateText,
  secondsText,
  shortWords,
} from "./plan-words.ts";
import { renderTable } from "./table.ts";
import { wrap } from "./wrap.ts";

/** What a plan says before its tables. */
export interface PlanHeading {
  /** The model in words. */
  readonly model: string;
  /** Lines about the machine. */
  readonly machine: readonly string[];
  /** "Shunya's own engine, simulated", "DeepSpeed on PyTorch, estimated". */
  readonly engine: string;
  /** "bf16, AdamW". */
  readonly job: string;
}

export function renderPlan(heading: PlanHeading, answer: PlanAnswer): string {
  const parts = [
    renderHeading(heading, answer.subject, answer.stages[0]?.batch.microBatch ?? 1),
    stageTable(answer),
    ...(answer.splits.length > 1 ? [splitTable(answer.splits)] : []),
    ...(answer.recommended && answer.tried.some((tried) => tried.placement.offloadOptimizer !== "none")
      ? [triedTable(answer)]
      : []),
    answer.recommended ? renderRecommendation(answer, answer.recommended) : renderNothing(answer),
  ];
  return parts.join("\n\n");
}

/** @param microBatch that the numbers below it are of */
export function renderHeading(
  { model, machine, engine, job }: PlanHeading,
  { asked, roomOf }: PlanSubject,
  microBatch: number,
): string {
  const { ranks, seqLength, checkpointing } = asked;
  const room = roomOf(asked);
  const recompute = checkpointing ? ", activation checkpointing" : "";
  return [
    wrap(`model: ${model}`, { indent: 7 }),
    ...machine.map((line) => wrap(line, { indent: 7 })),
    wrap(
      `job: ${formatMany(ranks, "rank")}, micro-batches of ${microBatch} x ${formatCount(seqLength)} tokens, ${job}${recompute}`,
      { indent: 7 },
    ),
    wrap(`engine: ${engine}`, { indent: 7 }),
    wrap(
      `A rank may take ${formatBytes(deviceAllowance(room))} of its device: 85 % of what is usable, and 2 GB stay free.`,
    ),
  ].join("\n");
}

interface Line {
  readonly label: string;
  readonly of: (row: PlanRow) => string;
  /** A line that says nothing is left out. */
  readonly isShown?: boolean;
}

function stageTable({ stages, room, subject }: PlanAnswer): string {
  const bytes = (of: (row: PlanRow) => number) => (row: PlanRow) => formatBytes(of(row));
  const has = (of: (row: PlanRow) => number): boolean => stages.some((row) => of(row) > 0);
  const isTimed = stages.some(({ time }) => time !== undefined);
  const timed = (of: (time: NonNullable<PlanRow["time"]>) => string) => (row: PlanRow) =>
    row.time ? of(row.time) : "-";
  const lines: Line[] = [
    { label: "parameters", of: bytes(({ estimate }) => estimate.device.parametersBytes) },
    { label: "gradients", of: bytes(({ estimate }) => estimate.device.gradientsBytes) },
    { label: "optimizer", of: bytes(({ estimate }) => estimate.device.optimizerBytes) },
    { label: "  model states", of: bytes(({ estimate }) => modelStatesBytes(estimate.device)) },
    { label: "activations", of: bytes(({ estimate }) => estimate.device.activationsBytes) },
    { label: "buffers", of: bytes(({ estimate }) => estimate.device.buffersBytes) },
    { label: "total", of: bytes(({ estimate }) => estimate.device.totalBytes) },
    {
      label: "left",
      of: (row) => (row.headroomBytes < 0 ? `-${formatBytes(-row.headroomBytes)}` : formatBytes(row.headroomBytes)),
    },
    {
      label: "on the host",
      of: bytes(({ estimate }) => estimate.hostBytes),
      isShown: has(({ estimate }) => estimate.hostBytes),
    },
    {
      label: "on disk",
      of: bytes(({ estimate }) => estimate.diskBytes),
      isShown: has(({ estimate }) => estimate.diskBytes),
    },
    { label: "fits", of: ({ short }) => (short.length === 0 ? "yes" : "no") },
    {
      label: "  short of",
      of: ({ short }) => shortWords(short) || "-",
      isShown: stages.some(({ short }) => short.length > 0),
    },
    { label: "sent in a step", of: (row) => communicationWords(row, subject) },
    { label: "  elements", of: ({ estimate }) => elementsText(estimate.commElements) },
    { label: "step", of: timed(({ seconds }) => secondsText(seconds)), isShown: isTimed },
    { label: "  bound by", of: timed(boundWords), isShown: isTimed },
    { label: "tokens/s", of: timed(({ tokensPerSecond }) => rateText(tokensPerSecond)), isShown: isTimed },
  ];
  const table = renderTable({
    columns: [
      { header: "on a rank", align: "left" },
      ...stages.map(({ placement }) => ({ header: `stage ${placement.stage}`, align: "right" as const })),
    ],
    rows: lines.filter(({ isShown = true }) => isShown).map(({ label, of }) => [label, ...stages.map(of)]),
  });
  const offloaded = stages.find(({ placement }) => placement.offloadOptimizer !== "none");
  const words = offloaded ? placementWords({ ...offloaded.placement }).replace(/^stage \d, /, "") : undefined;
  return `${words ? `With ${words}, where the stage allows it:\n\n` : ""}${table}${togetherNote(room)}`;
}

/** Four columns of more digits are wider than a terminal. */
const mostInFull = 1e11;
const elementsText = (count: number): string => (count < mostInFull ? formatCount(count) : sizeText(count));

const togetherNote = ({ togetherBytes }: PlanAnswer["room"]): string =>
  togetherBytes === undefined ? "" : "\n(Device and host are one memory here.)";

function splitTable(splits: readonly PlanRow[]): string {
  return `Ways to divide the batch at ${placementWords(splits[0]!.placement)}:\n\n${renderTable({
    columns: [
      { header: "micro-batch", align: "right" },
      { header: "accumulation", align: "right" },
      { header: "activations", align: "right" },
      { header: "total", align: "right" },
      { header: "fits", align: "left" },
    ],
    rows: splits.map(({ batch, estimate, short }) => [
      String(batch.microBatch),
      String(batch.gradientAccumulation),
      formatBytes(estimate.device.activationsBytes),
      formatBytes(estimate.device.totalBytes),
      fitWords(short),
    ]),
  })}`;
}

function triedTable({ tried, room }: PlanAnswer): string {
  return `Tried in this order, with the least micro-batch:\n\n${renderTable({
    columns: [
      { header: "placement", align: "left" },
      { header: "device", align: "right" },
      { header: "host", align: "right" },
      { header: "disk", align: "right" },
      { header: "fits", align: "left" },
    ],
    rows: tried.map(({ placement, estimate }) => [
      placementWords(placement),
      formatBytes(estimate.device.totalBytes),
      formatBytes(estimate.hostBytes),
      formatBytes(estimate.diskBytes),
      fitWords(shortagesOf(estimate, room)),
    ]),
  })}`;
}

/** Why it is the one. */
export function recommendationReason({ tried, room }: PlanAnswer, { estimate }: PlanRow): string {
  const before = tried.filter(({ fits }) => !fits);
  const takes = `it takes ${formatBytes(estimate.device.totalBytes)} of the ${formatBytes(deviceAllowance(room))} that a rank may take`;
  const last = before.at(-1);
  if (!last) return `${takes}, and nothing needs to be sharded`;
  return `${takes}; ${placementWords(last.placement)}, the last that was tried before it, ${whyNot(last.estimate, room)}`;
}

/** What an estimate has too little of. */
function whyNot(estimate: Estimate, room: RankRoom): string {
  const [short] = shortagesOf(estimate, room);
  const { device, hostBytes, diskBytes } = estimate;
  if (short === "host")
    return `needs ${formatBytes(hostBytes)} of host memory a rank, where ${formatBytes(allowedBytes(room.hostBytes, room.hostSharers))} may be taken`;
  if (short === "disk")
    return `needs ${formatBytes(diskBytes)} on disk a rank, where ${formatBytes(room.diskBytes)} are free`;
  if (short === "together")
    return `takes ${formatBytes(device.totalBytes + hostBytes)} of this machine's memory a rank`;
  return `takes ${formatBytes(device.totalBytes)}`;
}

function renderRecommendation(answer: PlanAnswer, row: PlanRow): string {
  const { batch, placement, time } = row;
  const accumulation = batch.gradientAccumulation > 1 ? ` and accumulation ${batch.gradientAccumulation}` : "";
  const lines = [
    wrap(`Recommended: ${placementWords(placement)}, with micro-batch ${batch.microBatch}${accumulation}.`),
    wrap(`Why: the fewest offloads, then the smallest stage, that fits: ${recommendationReason(answer, row)}.`, {
      indent: 2,
      first: 0,
    }),
  ];
  if (time) {
    const waits = time.transfers
      .filter(({ waitedSeconds }) => waitedSeconds > 0.005 * time.seconds)
      .map(({ queue, waitedSeconds }) => `${queueName(queue)} ${secondsText(waitedSeconds)}`);
    const waited = waits.length > 0 ? `; compute waits for ${waits.join(", ")}` : "";
    lines.push(
      wrap(
        `A step takes ${secondsText(time.seconds)}, ${rateText(time.tokensPerSecond)} tokens/s of all ranks${waited}.`,
        { indent: 2, first: 0 },
      ),
    );
  }
  for (const { placement: other } of answer.remedies)
    lines.push(wrap(`With activation checkpointing (--checkpointing) ${placementWords(other)} does, without offload.`));
  return lines.join("\n");
}

function renderNothing({ tried, remedies, subject }: PlanAnswer): string {
  const least = [...tried].sort((a, b) => a.estimate.device.totalBytes - b.estimate.device.totalBytes)[0];
  const lines = [
    wrap(
      least
        ? `Nothing fits, with any stage or offload; the least on a device is ${formatBytes(least.estimate.device.totalBytes)}, ` +
            `at ${placementWords(least.placement)} (host ${formatBytes(least.estimate.hostBytes)}, disk ${formatBytes(least.estimate.diskBytes)}).`
        : "Nothing fits: no placement goes together with this configuration.",
    ),
  ];
  if (remedies.length > 0) lines.push("", "What would fit, with micro-batch 1:");
  for (const { change, variant, placement } of remedies) {
    const words = {
      checkpointing: "activation checkpointing (--checkpointing)",
      seqLength: `sequences of ${variant.seqLength} (--seq-length ${variant.seqLength})`,
      ranks: `${variant.ranks} ranks (--ranks ${variant.ranks})`,
    }[change];
    const isBoth = change !== "checkpointing" && variant.checkpointing && !subject.asked.checkpointing;
    const both = isBoth ? " together with activation checkpointing (--checkpointing)" : "";
    lines.push(wrap(`- ${words}${both}: ${placementWords(placement)}`, { indent: 2, first: 0 }));
  }
  if (remedies.length === 0)
    lines.push(
      wrap(`Neither checkpointing, nor shorter sequences than ${subject.asked.seqLength}, nor more ranks help.`),
    );
  return lines.join("\n");
}
