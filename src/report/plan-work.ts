/** `--show-work`: every term of a plan with its numbers. */
import type { PlanAnswer, PlanRow } from "../planner/answer.ts";
import { deviceAllowance } from "../planner/fit.ts";
import type { PlanSubject } from "../planner/subject.ts";
import { formatBytes, formatCount, formatOperations, formatShare } from "./numbers.ts";
import { communicationWords, placementWords, queueName, secondsText } from "./plan-words.ts";
import { renderTable } from "./table.ts";
import { wrap } from "./wrap.ts";

export function renderWork({ stages, recommended, room, subject }: PlanAnswer): string {
  const rows = recommended && !stages.some((row) => isSame(row, recommended)) ? [...stages, recommended] : stages;
  const usable = formatCount(room.deviceBytes);
  const rule =
    `Allowed on a device: the least of 85 % of ${usable} bytes and ${usable} less 2,000,000,000 = ` +
    `${formatCount(deviceAllowance(room))} bytes.`;
  return [wrap(rule), ...rows.map((row) => renderRow(row, subject))].join("\n\n");
}

const isSame = (a: PlanRow, b: PlanRow): boolean =>
  placementWords(a.placement) === placementWords(b.placement) && a.batch.microBatch === b.batch.microBatch;

function renderRow(row: PlanRow, subject: PlanSubject): string {
  const { estimate, placement, batch, time } = row;
  const { microBatch, gradientAccumulation } = batch;
  const title = `${placementWords(placement)}; micro-batch ${microBatch}, accumulation ${gradientAccumulation}`;
  const table = renderTable({
    columns: [
      { header: "term", align: "left" },
      { header: "bytes", align: "right" },
      { header: "why", align: "left" },
    ],
    rows: [
      ...estimate.parts.map(({ name, bytes, why }) => [name, formatCount(bytes), why]),
      ["device at its fullest", formatCount(estimate.device.totalBytes), formatBytes(estimate.device.totalBytes)],
    ],
  });
  const sent =
    `Sent by a rank in a step: ${communicationWords(row, subject)} x (N - 1)/N with N = ${subject.asked.ranks}: ` +
    `${formatCount(estimate.commElements)} elements.`;
  return [`${title[0]!.toUpperCase()}${title.slice(1)}`, table, wrap(sent), ...(time ? [timeLines(row)] : [])].join(
    "\n",
  );
}

function timeLines({ time }: PlanRow): string {
  const { seconds, computeSeconds, transfers, operations } = time!;
  return [
    wrap(
      `A step: ${secondsText(seconds)}, of which compute ${secondsText(computeSeconds)} for ${formatOperations(operations)} of all ranks.`,
    ),
    ...transfers.map(({ queue, seconds: busy, waitedSeconds }) =>
      wrap(`  ${queueName(queue)}: ${secondsText(busy)}, hidden ${formatShare(busy - waitedSeconds, busy)}`),
    ),
  ].join("\n");
}
