/** The answer to a job that does not fit: where the bytes would go, and the smallest change that makes it fit. */
import { type HighWater, type Tier, tiers } from "../device/ledger.ts";
import { isSame, type Placement } from "../plan/placement.ts";
import { tierOf } from "../plan/residence.ts";
import { formatBytes, formatShare } from "./numbers.ts";
import { isPlain, offloadName } from "./placement-name.ts";
import { renderTable } from "./table.ts";
import { wrap } from "./wrap.ts";

/** The most that a rank holds at once, in bytes. What lies on a disk that is memory is counted to the host's. */
export interface Need extends Readonly<Record<Tier, number>> {
  /** In device and host memory together. */
  readonly memory: number;
}

/** What a rank may hold: budgets of the tiers, and of device and host together, which are one memory here. */
export type Room = Need;

export interface Candidate extends Placement {
  readonly need: Need;
}

export interface Refusal {
  readonly asked: Candidate;
  readonly room: Room;
  readonly ranks: number;
  /** The asked placement's fullest moments. */
  readonly highest: Readonly<Record<Tier, HighWater>>;
  /** Of the host's need, swap files that lie in memory. */
  readonly swapInMemoryBytes: number;
  /** All placements of the same job, the smallest change first. */
  readonly candidates: readonly Candidate[];
  /** Whether a folder for what goes to disk is named. */
  readonly hasFolder: boolean;
}

export type Shortage = keyof Need;
const shortageNames: readonly Shortage[] = [...tiers, "memory"];

/** What a job needs more of than there is. */
export const shortagesOf = (need: Need, room: Room): Shortage[] =>
  shortageNames.filter((name) => need[name] > room[name]);

export function renderRefusal(refusal: Refusal): string {
  const { asked, room, highest, swapInMemoryBytes } = refusal;
  const short = shortagesOf(asked.need, room);
  const tables = tiers.filter((tier) => short.includes(tier) || (short.includes("memory") && tier !== "disk"));
  return [
    `${short.map((name) => sentence(name, refusal)).join("\n")}\nNothing was allocated.`,
    ...tables
      .filter((tier) => asked.need[tier] > 0)
      .map((tier) => {
        const bytes: Record<string, number> = { ...highest[tier].byKind };
        if (tier === "host") bytes["swap files"] = swapInMemoryBytes;
        return kindTable(tier, bytes, short.includes(tier) ? room[tier] : undefined);
      }),
    candidateTable(refusal),
    advice(refusal),
  ].join("\n\n");
}

function sentence(name: Shortage, { asked, room, ranks }: Refusal): string {
  const needs = formatBytes(asked.need[name]);
  const has = formatBytes(room[name]);
  const stage = `ZeRO stage ${asked.stage}`;
  if (name === "disk") return `${stage} needs ${needs} on disk for each rank, and the folders have room for ${has}.`;
  if (name !== "memory") return `${stage} needs ${needs} of ${name} memory a rank, and the budget is ${has}.`;
  const whose = ranks === 1 ? "this machine has" : `each of ${ranks} ranks has, as its share of this machine's memory,`;
  return (
    `Device and host are both this machine's memory here: ${stage} needs ${needs} of it on a rank,\n` +
    `and ${whose} ${has}.`
  );
}

function kindTable(tier: Tier, byKind: Readonly<Record<string, number>>, budgetBytes: number | undefined): string {
  const kinds = Object.entries(byKind)
    .filter(([, bytes]) => bytes > 0)
    .sort(([, a], [, b]) => b - a);
  const total = kinds.reduce((sum, [, bytes]) => sum + bytes, 0);
  const states = (byKind.parameters ?? 0) + (byKind.gradients ?? 0) + (byKind.optimizer ?? 0);
  return renderTable({
    columns: [
      { header: `${tier}: kind`, align: "left" },
      { header: "at the peak", align: "right" },
      { header: "share", align: "right" },
    ],
    rows: [
      ...kinds.map(([kind, bytes]) => [kind, formatBytes(bytes), formatShare(bytes, total)]),
      ["total", formatBytes(total), ""],
      ...(states > 0 ? [["  model states", formatBytes(states), formatShare(states, total)]] : []),
      ...(budgetBytes === undefined ? [] : [["budget", formatBytes(budgetBytes), formatShare(budgetBytes, total)]]),
    ],
  });
}

/** Where a stage alone is enough, tiers are not spoken of. */
function candidateTable({ asked, candidates, room }: Refusal): string {
  const plain = isPlain(asked) ? candidates.filter(isPlain) : [];
  if (firstThatFits(plain, room)) return stageTable(plain, room);
  const all = [...candidates].sort((a, b) => a.stage - b.stage);
  return renderTable({
    columns: [
      { header: "stage", align: "left" },
      { header: "optimizer", align: "left" },
      { header: "parameters", align: "left" },
      ...tiers.map((tier) => ({ header: tier, align: "right" as const })),
      { header: "fits", align: "left" },
    ],
    rows: all.map((candidate) => [
      `${candidate.stage}${isSame(candidate, asked) ? " *" : ""}`,
      tierOf[candidate.offloadOptimizer],
      tierOf[candidate.offloadParam],
      ...tiers.map((tier) => formatBytes(candidate.need[tier])),
      fitText(shortagesOf(candidate.need, room)),
    ]),
  });
}

function stageTable(candidates: readonly Candidate[], room: Room): string {
  return renderTable({
    columns: [
      { header: "stage", align: "left" },
      { header: "peak", align: "right" },
      { header: "fits", align: "left" },
    ],
    rows: candidates.map(({ stage, need }) => [
      String(stage),
      formatBytes(need.device),
      shortagesOf(need, room).length === 0 ? "yes" : "no",
    ]),
  });
}

function fitText(short: readonly Shortage[]): string {
  if (short.length === 0) return "yes";
  return `no: ${short.map((name) => (name === "memory" ? "this machine" : name)).join(", ")}`;
}

/** The first of `candidates` that fits. */
export function firstThatFits<T extends Candidate>(candidates: readonly T[], room: Room): T | undefined {
  return candidates.find(({ need }) => shortagesOf(need, room).length === 0);
}

function advice(refusal: Refusal): string {
  const { candidates, room } = refusal;
  const fits = firstThatFits(candidates, room);
  // The budgets may be those of other devices than this machine's.
  const elsewhere = firstThatFits(candidates, { ...room, memory: Number.POSITIVE_INFINITY });
  const lines: string[] = [];
  if (elsewhere && elsewhere !== fits)
    lines.push(`${change(elsewhere, refusal)} fits the budgets, but not this machine's memory.`);
  if (fits) lines.push(`${change(fits, refusal)} fits:\n  ${flags(fits, refusal)}`);
  else {
    const least = (of: (need: Need) => number): string =>
      formatBytes(Math.min(...candidates.map(({ need }) => of(need))));
    const text =
      `No stage fits${elsewhere ? " here" : ""}, with offload or without; the least is ${least((n) => n.device)} of device ` +
      `memory on a rank, or ${least((n) => n.memory)} of device and host memory together. Use a ` +
      "smaller micro-batch or sequence length, activation checkpointing, more ranks, or larger budgets (--device-memory, --host-memory).";
    lines.push(wrap(text));
  }
  return lines.join("\n");
}

function change(to: Candidate, { asked }: Refusal): string {
  return isPlain(to) && isPlain(asked) ? `Stage ${to.stage}` : `Stage ${to.stage} ${offloadName(to)}`;
}

function flags(to: Candidate, { asked, hasFolder }: Refusal): string {
  const set = (key: string, value: string): string => `--set zero_optimization.${key}=${value}`;
  const all: string[] = [];
  if (to.stage !== asked.stage) all.push(`--stage ${to.stage}`);
  for (const [section, was, is] of [
    ["offload_optimizer", asked.offloadOptimizer, to.offloadOptimizer],
    ["offload_param", asked.offloadParam, to.offloadParam],
  ] as const)
    if (was !== is) all.push(set(`${section}.device`, is));
  const section = to.offloadOptimizer === "nvme" ? "offload_optimizer" : "offload_param";
  if ((to.offloadOptimizer === "nvme" || to.offloadParam === "nvme") && !hasFolder)
    all.push(set(`${section}.nvme_path`, "FOLDER"));
  return all.join(" \\\n  ");
}
