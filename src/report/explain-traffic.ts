/** What crosses which link in a step, and how often, by the plan's own terms. */
import { type DType, dtypeBytes } from "../device/dtype.ts";
import type { TrafficKind } from "../device/traffic.ts";
import { expectedTraffic, type TrafficTerm } from "../plan/expected.ts";
import { expectedCopies } from "../plan/expected-copies.ts";
import type { Plan } from "../plan/plan.ts";
import { elementDType } from "../plan/residence.ts";
import type { Subject } from "../planner/explained.ts";
import { formatBytes, formatCount } from "./numbers.ts";
import { renderTable } from "./table.ts";

export interface TrafficLine {
  readonly link: "between ranks" | "device to host" | "host to device" | "from disk" | "to disk";
  /** "gradients, once". */
  readonly what: string;
  /** How many of `unit` a rank sends or copies in a step. */
  readonly times: number;
  readonly unit: "elements of psi (N-1)/N" | "elements of psi/N" | "bytes of psi/N";
  readonly elements: number | null;
  readonly bytes: number | null;
}

const linkOf: Readonly<Partial<Record<TrafficKind, TrafficLine["link"]>>> = {
  reduceScatter: "between ranks",
  allGather: "between ranks",
  down: "device to host",
  up: "host to device",
  diskRead: "from disk",
  diskWrite: "to disk",
};
const ofDisk: readonly TrafficKind[] = ["diskRead", "diskWrite"];

export function trafficLines(subject: Subject): TrafficLine[] {
  const { plan, known, forecast } = subject;
  return [...expectedTraffic(plan, forecast?.forwardOnly), ...expectedCopies(plan, forecast?.forwardOnly)].map(
    (term): TrafficLine => {
      const isDisk = ofDisk.includes(term.kind);
      const bytes = isDisk ? term.elements : term.elements * dtypeBytes[typeOf(term, plan)];
      return {
        link: linkOf[term.kind]!,
        what: term.name,
        times: factorOf(term, plan),
        unit: isCollective(term.kind) ? "elements of psi (N-1)/N" : isDisk ? "bytes of psi/N" : "elements of psi/N",
        elements: known === "nothing" || isDisk ? null : term.elements,
        bytes: known === "nothing" ? null : bytes,
      };
    },
  );
}

/** Gradients travel in the type that they have, or in the one that the file asks for; all else is parameters. */
function typeOf({ kind, name }: TrafficTerm, { config, residences }: Plan): DType {
  const { gradients, parameters } = residences;
  if (kind === "reduceScatter") {
    const { type } = config.gradientReduction;
    if (type !== undefined) return elementDType[type];
    return gradients.split === "whole" ? gradients.dtype : parameters.dtype;
  }
  return name.includes("gradients") ? gradients.dtype : parameters.dtype;
}

/** A term as a multiple of psi, the share of all ranks or of the others taken out. Padding makes it a little more than a whole number. */
function factorOf({ kind, elements }: TrafficTerm, { parameterElements, worldSize }: Plan): number {
  const share = isCollective(kind) ? (worldSize - 1) / worldSize : 1 / worldSize;
  const factor = elements / (parameterElements * share);
  const nearest = Math.round(factor);
  return nearest > 0 && Math.abs(factor - nearest) < 0.02 * nearest ? nearest : Number(factor.toPrecision(3));
}

const isCollective = (kind: TrafficKind): boolean => kind === "reduceScatter" || kind === "allGather";

export function renderTrafficLines(lines: readonly TrafficLine[]): string {
  const isKnown = lines.some(({ bytes }) => bytes !== null);
  const links = [...new Set(lines.map(({ link }) => link))];
  return renderTable({
    columns: [
      { header: "a rank, in a step", align: "left" },
      { header: "times", align: "right" },
      ...(isKnown
        ? [
            { header: "elements", align: "right" as const },
            { header: "bytes", align: "right" as const },
          ]
        : []),
    ],
    rows: links.flatMap((link) => {
      const own = lines.filter((line) => line.link === link);
      return [
        [`${link}, ${own[0]!.unit}:`],
        ...own.map(({ what, times, elements, bytes }) => [
          `  ${what.replace(" that were updated", " updated").replace(" for forward", ", forward")}`,
          times >= 0.001 ? String(times) : "< 0.001",
          ...(isKnown ? [elements === null ? "" : formatCount(elements), formatBytes(bytes ?? 0)] : []),
        ]),
      ];
    }),
  });
}

export function trafficNotes(subject: Subject, lines: readonly TrafficLine[]): string[] {
  const { config, forecast, known } = subject;
  const { worldSize } = config;
  const notes: string[] = [];
  if (worldSize === 1) notes.push("One rank sends nothing to others.");
  else notes.push(...collectiveNotes(subject, lines));
  const copied = (link: TrafficLine["link"]): number =>
    lines.reduce((sum, line) => sum + (line.link === link ? (line.bytes ?? 0) : 0), 0);
  const [down, up] = [copied("device to host"), copied("host to device")];
  if (known !== "nothing" && down + up > 0)
    notes.push(
      `All ${formatCount(worldSize)} ranks together: ${formatBytes(worldSize * down)} down and ${formatBytes(worldSize * up)} up in a step, ${formatBytes(worldSize * (down + up))} in all.`,
    );
  const isPlain = config.offloadParam === "none" && config.offloadRatio === 1 && config.gradientAccumulation === 1;
  if (
    config.offloadOptimizer !== "none" &&
    isPlain &&
    config.precision !== "fp32" &&
    config.gradientAccumulationType !== "fp32"
  )
    notes.push(
      "That is 2 psi bytes of gradients down and 2 psi bytes of parameters up over all ranks, 4 psi together: the least that an update on the host can do with.",
    );
  const counted = forecast?.report.traffic.allGather.elementsSent;
  const expected = gatheredElements(lines);
  if (counted !== undefined && counted < expected)
    notes.push(
      `The reuse distance saves gathers: a forecast of Shunya's engine counts ${formatCount(counted)} elements in the ${formatCount(expected)} gathered above.`,
    );
  return notes;
}

/** Terms of all-gathers are those that are not reductions of gradients over ranks. */
const gatheredElements = (lines: readonly TrafficLine[]): number =>
  lines.reduce(
    (sum, { link, what, elements }) =>
      sum + (link === "between ranks" && !/^gradients/.test(what) ? (elements ?? 0) : 0),
    0,
  );

function collectiveNotes({ config, known }: Subject, lines: readonly TrafficLine[]): string[] {
  const own = lines.filter(({ link }) => link === "between ranks");
  const notes: string[] = [];
  if (known !== "nothing") {
    const elements = own.reduce((sum, line) => sum + (line.elements ?? 0), 0);
    const bytes = own.reduce((sum, line) => sum + (line.bytes ?? 0), 0);
    notes.push(
      `Between ranks a rank sends ${formatCount(elements)} elements in all (${formatBytes(bytes)}), and receives as many.`,
    );
  }
  const { stage, gradientAccumulation } = config;
  const often =
    gradientAccumulation === 1 ? "" : ` It does so for each of the ${gradientAccumulation} micro-batches of a step.`;
  if (stage === 3)
    notes.push(
      `Stage 3 sends half as much again as the others: parameters are gathered twice a micro-batch (forward and backward), gradients are reduced once.${often}`,
    );
  if (stage === 2 && gradientAccumulation > 1)
    notes.push(
      `Stage 2 reduces gradients after each of the ${gradientAccumulation} micro-batches, stage 1 once a step: with accumulation stage 1 sends less.`,
    );
  if (stage === 1 || stage === 2)
    notes.push(
      "DeepSpeed sends more: unless use_multi_rank_bucket_allreduce is false it all-reduces whole buckets and each rank keeps its part, twice what a reduction to the owner sends.",
    );
  return notes;
}
