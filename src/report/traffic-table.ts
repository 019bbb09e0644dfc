/** What a rank sends and receives in a step: the plan's formula beside the ledger's count, in elements. */
import type { TrafficKind } from "../device/traffic.ts";
import type { TrafficTerm } from "../plan/expected.ts";
import { formatCount } from "./numbers.ts";
import { groupRanks } from "./rank-groups.ts";
import { renderTable, type Table } from "./table.ts";
import type { RankTraffic } from "./types.ts";

/** Collectives are always shown, zeros included; copies between tiers only where there are tiers. */
const collectives: readonly TrafficKind[] = ["reduceScatter", "allGather", "broadcast", "control"];
const copies: readonly TrafficKind[] = ["down", "up", "diskRead", "diskWrite"];

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

/** One table per group of equal ranks, and what the formulas are made of. @param ranks in rank order */
export function renderTrafficTables(ranks: readonly RankTraffic[]): string {
  return groupRanks(ranks)
    .map(({ title, value }) =>
      [`Traffic of ${title}, in elements a step:`, renderTable(trafficTable(value)), ...value.terms.map(termLine)].join(
        "\n",
      ),
    )
    .join("\n\n");
}

function termLine({ collective, name, elements }: TrafficTerm): string {
  return `  ${trafficTitles[collective]}: ${name}: ${formatCount(elements)}`;
}

export function trafficTable(traffic: RankTraffic): Table {
  const { forecast, measured } = traffic;
  const kinds = [...collectives, ...copies.filter((kind) => forecast[kind].calls > 0 || measured[kind].calls > 0)];
  const rows = kinds.map((kind) => [kind, figuresOf(traffic, kind)] as const);
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
  const own = terms.filter((term) => term.collective === kind);
  const formula = own.length > 0 ? own.reduce((sum, term) => sum + term.elements, 0) : undefined;
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
