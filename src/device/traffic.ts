/** The traffic ledger: every collective and tier copy of a rank, in elements and bytes (contracts 14, 24), and its arithmetic. */

export const trafficKinds = [
  "reduceScatter",
  "allGather",
  "broadcast",
  "control",
  "down",
  "up",
  "diskRead",
  "diskWrite",
] as const;
export type TrafficKind = (typeof trafficKinds)[number];

export interface Traffic {
  readonly calls: number;
  readonly elementsSent: number;
  readonly bytesSent: number;
  readonly elementsReceived: number;
  readonly bytesReceived: number;
}
export type TrafficSnapshot = Readonly<Record<TrafficKind, Traffic>>;

const none: Traffic = { calls: 0, elementsSent: 0, bytesSent: 0, elementsReceived: 0, bytesReceived: 0 };

export class TrafficLedger {
  #entries = Object.fromEntries(trafficKinds.map((k) => [k, none])) as Record<TrafficKind, Traffic>;
  #operations = 0;

  /** Enters `calls` calls in which this rank sends and receives so many elements of `elementBytes` each. */
  add(kind: TrafficKind, sent: number, received: number, elementBytes: number, calls = 1): void {
    const t = this.#entries[kind];
    this.#entries[kind] = {
      calls: t.calls + calls,
      elementsSent: t.elementsSent + sent,
      bytesSent: t.bytesSent + sent * elementBytes,
      elementsReceived: t.elementsReceived + received,
      bytesReceived: t.bytesReceived + received * elementBytes,
    };
  }

  addOperations(count: number): void {
    this.#operations += count;
  }

  /** Enters what came since `before` so many times more (a forecast of micro-batches that are all alike). */
  repeatSince(before: { readonly traffic: TrafficSnapshot; readonly operations: number }, times: number): void {
    for (const kind of trafficKinds) {
      const [now, then] = [this.#entries[kind], before.traffic[kind]];
      const more = (field: keyof Traffic): number => now[field] + times * (now[field] - then[field]);
      this.#entries[kind] = {
        calls: more("calls"),
        elementsSent: more("elementsSent"),
        bytesSent: more("bytesSent"),
        elementsReceived: more("elementsReceived"),
        bytesReceived: more("bytesReceived"),
      };
    }
    this.#operations += times * (this.#operations - before.operations);
  }

  /** Starts counting again at zero. */
  beginStep(): void {
    for (const kind of trafficKinds) this.#entries[kind] = none;
    this.#operations = 0;
  }

  get operations(): number {
    return this.#operations;
  }

  snapshot(): TrafficSnapshot {
    return { ...this.#entries };
  }
}
