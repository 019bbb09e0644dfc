/** What a rank sends and receives in a step: the plan's formula beside the ledger's count, in elements. */
import type { Traffic, TrafficKind } from "../device/traffic.ts";
import type { TrafficTerm } from "../plan/expected.ts";
import { formatCount } from "./numbers.ts";
import { groupRanks } from "./rank-groups.ts";
import { renderTable, type Table } from "./table.ts";
import type { RankTraffic } from "./types.ts";

const collectives: readonly TrafficKind[] = ["reduceScatter", "allGather", "broadcast", "control"];
/** Copies go one way: what counts is what leaves, or what arrives. */
const copies = {
  down: { elements: "elementsSent", bytes: "bytesSent" },
  up: { elements: "elementsReceived", bytes: "bytesReceived" },
  diskRead: { elements: "elementsReceived", bytes: "bytesReceived" },
  diskWrite: { elements: "elementsSent", bytes: "bytesSent" },
} as const satisfies Partial<Record<TrafficKind, { readonly elements: keyof Traffic; readonly bytes: keyof Traffic }>>;
const copyKinds = Object.keys(copies) as (keyof typeof copies)[];

export const trafficTitles: Readonly<Record<TrafficKind, string>> = {
  reduceScatter: "reduce-scatter",
  allGather: "all-gather",
  broadcast: "broadcast",
  control: "control",
  down: "device to host",
  up: "host to device",
  diskRead: "disk read",
  diskWrite: "disk write",
};

/**
 * Two tables per group of equal ranks, and what the formulas are made of: collectives, zeros included, and copies between tiers
 * where there are any. @param ranks in rank order
 */
export function renderTrafficTables(ranks: readonly RankTraffic[]): string {
  return groupRanks(ranks)
    .flatMap(({ title, value }) => [
      section(`Traffic of ${title}, in elements a step:`, trafficTable(value), value, collectives),
      ...(copyTable(value).rows.length === 0
        ? []
        : [section(`Copies of ${title}, in elements a step (disk: bytes):`, copyTable(value), value, copyKinds)]),
    ])
    .join("\n\n");
}

function section(title: string, table: Table, { terms }: RankTraffic, kinds: readonly TrafficKind[]): string {
  return [title, renderTable(table), ...terms.filter(({ kind }) => kinds.includes(kind)).map(termLine)].join("\n");
}

function termLine({ kind, name, elements }: TrafficTerm): string {
  return `  ${trafficTitles[kind]}: ${name}: ${formatCount(elements)}`;
}

export function trafficTable(traffic: RankTraffic): Table {
  const rows = collectives.map((kind) => [kind, figuresOf(traffic, kind)] as const);
  const total = (column: number): number => rows.reduce((sum, [, figures]) => sum + figures[column]!, 0);
  return {
    columns: [
      { header: "collective", align: "left" },
      { header: "calls", align: "right" },
      { header: "expected", align: "right" },
      { header: "sent", align: "right" },
      { header: "expected", align: "right" },
      { header: "received", align: "right" },
      { header: "bytes sent", align: "right" },
    ],
    rows: [...rows.map(([kind, figures]) => [trafficTitles[kind], ...figures.map(formatCount)]), totalRow()],
  };

  function totalRow(): string[] {
    return ["total", ...[0, 1, 2, 3, 4, 5].map((column) => formatCount(total(column)))];
  }
}

/** In the order of the columns. By the formulas a rank receives as much as it sends. */
function figuresOf({ terms, forecast, measured }: RankTraffic, kind: TrafficKind): number[] {
  const formula = formulaOf(terms, kind);
  const found = measured[kind];
  return [
    found.calls,
    formula ?? forecast[kind].elementsSent,
    found.elementsSent,
    formula ?? forecast[kind].elementsReceived,
    found.elementsReceived,
    found.bytesSent,
  ];
}

export function copyTable({ terms, forecast, measured }: RankTraffic): Table {
  return {
    columns: [
      { header: "copy", align: "left" },
      { header: "calls", align: "right" },
      { header: "expected", align: "right" },
      { header: "measured", align: "right" },
      { header: "bytes", align: "right" },
    ],
    rows: copyKinds
      .filter((kind) => forecast[kind].calls > 0 || measured[kind].calls > 0)
      .map((kind) => {
        const { elements, bytes } = copies[kind];
        const { [kind]: found } = measured;
        const expected = formulaOf(terms, kind) ?? forecast[kind][elements];
        return [trafficTitles[kind], ...[found.calls, expected, found[elements], found[bytes]].map(formatCount)];
      }),
  };
}

function formulaOf(terms: readonly TrafficTerm[], kind: TrafficKind): number | undefined {
  const own = terms.filter((term) => term.kind === kind);
  return own.length > 0 ? own.reduce((sum, term) => sum + term.elements, 0) : undefined;
}
