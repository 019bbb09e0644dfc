/** Where a rank's memory goes, tier by tier: what the plan expected beside what the ledger measured. */
import { type MemoryKind, type MemorySnapshot, memoryKinds, type Tier, tiers } from "../device/ledger.ts";
import { formatBytes, formatCount } from "./numbers.ts";
import { groupRanks } from "./rank-groups.ts";
import { renderTable, type Table } from "./table.ts";
import type { RankMemory } from "./types.ts";

const tierTitles: Readonly<Record<Tier, string>> = { device: "Device memory", host: "Host memory", disk: "Disk" };

/** For each group of equal ranks a table of the device, and one of each other tier in which they hold something. @param ranks in rank order */
export function renderMemoryTables(ranks: readonly RankMemory[]): string {
  return groupRanks(ranks)
    .flatMap(({ title, value }) =>
      tiers
        .filter((tier) => tier === "device" || isUsed(value.forecast, tier) || isUsed(value.measured, tier))
        .map((tier) => `${tierTitles[tier]} of ${title}, in bytes:\n${renderTable(memoryTable(value, tier))}`),
    )
    .join("\n\n");
}

const isUsed = (memory: MemorySnapshot, tier: Tier): boolean => memory.peakByTier[tier] > 0;

/** Kinds that hold nothing anywhere are left out. Kinds reach their peaks at different moments: the total is no sum of them. */
export function memoryTable({ formula, forecast, measured }: RankMemory, tier: Tier): Table {
  const rows = memoryKinds.map((kind): [MemoryKind, number[]] => {
    const [expected, found] = [forecast[tier][kind], measured[tier][kind]];
    return [kind, [formula[tier]?.[kind] ?? expected.current, found.current, expected.peak, found.peak]];
  });
  const atRest = (column: 0 | 1): number => rows.reduce((sum, [, figures]) => sum + figures[column]!, 0);
  const total = [atRest(0), atRest(1), forecast.peakByTier[tier], measured.peakByTier[tier]];
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
  const used = tiers.filter((tier) => tier === "device" || isUsed(memory, tier));
  const totals = used.map((tier) => {
    const atRest = memoryKinds.reduce((sum, kind) => sum + memory[tier][kind].current, 0);
    return [tier, "total", formatBytes(atRest), formatBytes(memory.peakByTier[tier])];
  });
  return {
    columns: [
      { header: "tier", align: "left" },
      { header: "kind", align: "left" },
      { header: "at rest", align: "right" },
      { header: "peak", align: "right" },
    ],
    rows: [...rows, ...totals],
  };
}
