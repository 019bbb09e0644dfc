/** Where a rank's device memory goes: what the plan expected beside what the ledger measured. */
import { type MemoryKind, type MemorySnapshot, memoryKinds, tiers } from "../device/ledger.ts";
import { formatBytes, formatCount } from "./numbers.ts";
import { groupRanks } from "./rank-groups.ts";
import { renderTable, type Table } from "./table.ts";
import type { RankMemory } from "./types.ts";

/** One table per group of equal ranks. @param ranks in rank order */
export function renderMemoryTables(ranks: readonly RankMemory[]): string {
  return groupRanks(ranks)
    .map(({ title, value }) => `Device memory of ${title}, in bytes:\n${renderTable(memoryTable(value))}`)
    .join("\n\n");
}

/** Kinds that hold nothing anywhere are left out. Kinds reach their peaks at different moments: the total is no sum of them. */
export function memoryTable({ formula, forecast, measured }: RankMemory): Table {
  const rows = memoryKinds.map((kind): [MemoryKind, number[]] => {
    const [expected, found] = [forecast.device[kind], measured.device[kind]];
    return [kind, [formula[kind] ?? expected.current, found.current, expected.peak, found.peak]];
  });
  const atRest = (column: 0 | 1): number => rows.reduce((sum, [, figures]) => sum + figures[column]!, 0);
  const total = [atRest(0), atRest(1), peakBytes(forecast), peakBytes(measured)];
  return {
    columns: [
      { header: "kind", align: "left" },
      { header: "at rest, formula", align: "right" },
      { header: "at rest, measured", align: "right" },
      { header: "peak, expected", align: "right" },
      { header: "peak, measured", align: "right" },
    ],
    rows: [...rows.filter(([, figures]) => figures.some((bytes) => bytes > 0)), ["total", total] as const].map(
      ([name, figures]) => [name, ...figures.map(formatCount)],
    ),
  };
}

/** The most device bytes that were held at once in the step. */
export function peakBytes(memory: MemorySnapshot): number {
  return Math.max(...Object.values(memory.peakByPhase));
}

/** `memory_breakdown`: what each rank holds by kind now, and the most of each kind since the step began, in every tier. */
export function renderMemoryBreakdown(step: number, ranks: readonly MemorySnapshot[]): string {
  return groupRanks(ranks)
    .map(({ title, value }) => `Memory of ${title}, after step ${step}:\n${renderTable(breakdownTable(value))}`)
    .join("\n\n");
}

function breakdownTable(memory: MemorySnapshot): Table {
  const rows = tiers.flatMap((tier) =>
    memoryKinds
      .filter((kind) => memory[tier][kind].peak > 0)
      .map((kind) => [tier, kind, formatBytes(memory[tier][kind].current), formatBytes(memory[tier][kind].peak)]),
  );
  const atRest = memoryKinds.reduce((sum, kind) => sum + memory.device[kind].current, 0);
  return {
    columns: [
      { header: "tier", align: "left" },
      { header: "kind", align: "left" },
      { header: "at rest", align: "right" },
      { header: "peak", align: "right" },
    ],
    rows: [...rows, ["device", "total", formatBytes(atRest), formatBytes(peakBytes(memory))]],
  };
}
