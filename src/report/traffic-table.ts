/** What a rank sends and receives in a step: the plan's formula beside the ledger's count, in elements. */
import type { Traffic, TrafficKind } from "../device/traffic.ts";
import { formatBytes, formatCount } from "./numbers.ts";
import { groupRanks } from "./rank-groups.ts";
import { renderTable, type Table } from "./table.ts";
import type { RankTraffic, TrafficElements } from "./types.ts";

/** Collectives are always shown, zeros included; copies between tiers only where there are tiers. */
const collectives: readonly TrafficKind[] = ["reduceScatter", "allGather", "broadcast", "control"];
const copies: readonly TrafficKind[] = ["down", "up", "diskRead", "diskWrite"];

const titles: Readonly<Record<TrafficKind, string>> = {
  reduceScatter: "reduce-scatter",
  allGather: "all-gather",
  broadcast: "broadcast",
  control: "control",
  down: "device to host",
  up: "host to device",
  diskRead: "disk read",
  diskWrite: "disk write",
};

const nothing: TrafficElements = { sent: 0, received: 0 };

/** One table per group of equal ranks. @param ranks in rank order. */
export function renderTrafficTables(ranks: readonly RankTraffic[]): string {
  return groupRanks(ranks)
    .map(({ title, value }) => `Traffic of ${title}, elements a step:\n${renderTable(trafficTable(value))}`)
    .join("\n\n");
}

export function trafficTable({ expected, measured }: RankTraffic): Table {
  const kinds = [...collectives, ...copies.filter((kind) => expected[kind] !== undefined || measured[kind].calls > 0)];
  return {
    columns: [
      { header: "collective", align: "left" },
      { header: "calls", align: "right" },
      { header: "sent, expected", align: "right" },
      { header: "sent, measured", align: "right" },
      { header: "received, expected", align: "right" },
      { header: "received, measured", align: "right" },
      { header: "bytes sent", align: "right" },
    ],
    rows: [
      ...kinds.map((kind) => row(titles[kind], expected[kind] ?? nothing, measured[kind])),
      row("total", sumExpected(kinds.map((k) => expected[k] ?? nothing)), sumMeasured(kinds.map((k) => measured[k]))),
    ],
  };
}

function row(title: string, expected: TrafficElements, measured: Traffic): string[] {
  const counts = [expected.sent, measured.elementsSent, expected.received, measured.elementsReceived];
  return [title, formatCount(measured.calls), ...counts.map(formatCount), formatBytes(measured.bytesSent)];
}

function sumExpected(parts: readonly TrafficElements[]): TrafficElements {
  return parts.reduce((a, b) => ({ sent: a.sent + b.sent, received: a.received + b.received }), nothing);
}

function sumMeasured(parts: readonly Traffic[]): Traffic {
  return parts.reduce((a, b) => ({
    calls: a.calls + b.calls,
    elementsSent: a.elementsSent + b.elementsSent,
    bytesSent: a.bytesSent + b.bytesSent,
    elementsReceived: a.elementsReceived + b.elementsReceived,
    bytesReceived: a.bytesReceived + b.bytesReceived,
  }));
}
