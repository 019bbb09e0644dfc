/** `comms_logger`: what a rank's collectives have moved, counted by the traffic ledger. Times are not taken, so no bandwidth is shown. */
import { type Traffic, type TrafficKind, type TrafficSnapshot, trafficKinds } from "../device/traffic.ts";
import { formatBytes, formatCount, formatMany } from "./numbers.ts";
import { renderTable } from "./table.ts";
import { trafficTitles } from "./traffic-table.ts";

const none: Traffic = { calls: 0, elementsSent: 0, bytesSent: 0, elementsReceived: 0, bytesReceived: 0 };

/** Traffic of one rank, added up over steps. */
export class CommunicationTotals {
  readonly #totals = new Map<TrafficKind, Traffic>();
  #steps = 0;

  add(traffic: TrafficSnapshot): void {
    this.#steps++;
    for (const kind of usedKinds(traffic)) {
      const [before, more] = [this.#totals.get(kind) ?? none, traffic[kind]];
      const sum = (field: keyof Traffic): number => before[field] + more[field];
      this.#totals.set(kind, {
        calls: sum("calls"),
        elementsSent: sum("elementsSent"),
        bytesSent: sum("bytesSent"),
        elementsReceived: sum("elementsReceived"),
        bytesReceived: sum("bytesReceived"),
      });
    }
  }

  render(): string {
    const columns = ["calls", "elements sent", "bytes sent", "bytes received", "bytes a call"];
    return [
      `Communication of rank 0 in ${formatMany(this.#steps, "step")}:`,
      renderTable({
        columns: [{ header: "kind", align: "left" }, ...columns.map((header) => ({ header, align: "right" as const }))],
        rows: [...this.#totals].map(([kind, t]) => [
          trafficTitles[kind],
          ...[t.calls, t.elementsSent, t.bytesSent, t.bytesReceived].map(formatCount),
          formatBytes(t.bytesSent / t.calls),
        ]),
      }),
    ].join("\n");
  }
}

/** A line for each kind of a step. */
export function renderStepTraffic(step: number, traffic: TrafficSnapshot): string {
  return usedKinds(traffic)
    .map((kind) => {
      const { calls, elementsSent, bytesSent } = traffic[kind];
      return `step ${step}: ${trafficTitles[kind]}: ${formatMany(calls, "call")}, ${formatMany(elementsSent, "element")} (${formatBytes(bytesSent)}) sent`;
    })
    .join("\n");
}

const usedKinds = (traffic: TrafficSnapshot): TrafficKind[] => trafficKinds.filter((kind) => traffic[kind].calls > 0);
