/** Where a rank's device memory goes: what the plan expected beside what the ledger measured. */
import { type MemoryKind, type MemorySnapshot, memoryKinds } from "../device/ledger.ts";
import { formatCount } from "./numbers.ts";
import { groupRanks } from "./rank-groups.ts";
import { renderTable, type Table } from "./table.ts";
import type { MemoryByKind, MemoryFigures, RankMemory } from "./types.ts";

/** A rank's ledger, as the measured half of the table. */
export function measuredMemory(memory: MemorySnapshot): MemoryByKind {
  const figures = (kind: MemoryKind): MemoryFigures => ({
    atRestBytes: memory.device[kind].current,
    peakBytes: memory.device[kind].peak,
  });
  const kinds = Object.fromEntries(memoryKinds.map((kind) => [kind, figures(kind)])) as Record<
    MemoryKind,
    MemoryFigures
  >;
  return {
    kinds,
    total: {
      atRestBytes: memoryKinds.reduce((sum, kind) => sum + kinds[kind].atRestBytes, 0),
      peakBytes: Math.max(...Object.values(memory.peakByPhase)),
    },
  };
}

/** One table per group of equal ranks. @param ranks in rank order. */
export function renderMemoryTables(ranks: readonly RankMemory[]): string {
  return groupRanks(ranks)
    .map(({ title, value }) => `Device memory of ${title}, in bytes:\n${renderTable(memoryTable(value))}`)
    .join("\n\n");
}

/** Kinds that hold nothing anywhere are left out. */
export function memoryTable({ expected, measured }: RankMemory): Table {
  const used = memoryKinds.filter((kind) => [expected.kinds[kind], measured.kinds[kind]].some(holdsSomething));
  const row = (name: string, formula: MemoryFigures, ledger: MemoryFigures): string[] => [
    name,
    ...[formula.atRestBytes, ledger.atRestBytes, formula.peakBytes, ledger.peakBytes].map(formatCount),
  ];
  return {
    columns: [
      { header: "kind", align: "left" },
      { header: "at rest, formula", align: "right" },
      { header: "at rest, measured", align: "right" },
      { header: "peak, expected", align: "right" },
      { header: "peak, measured", align: "right" },
    ],
    rows: [
      ...used.map((kind) => row(kind, expected.kinds[kind], measured.kinds[kind])),
      row("total", expected.total, measured.total),
    ],
  };
}

function holdsSomething(figures: MemoryFigures): boolean {
  return figures.atRestBytes > 0 || figures.peakBytes > 0;
}
