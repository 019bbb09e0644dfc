/**
 * The simulated device: no memory, no compute, the same ledger. Every op is checked and counted like on the CPU device. With costs it
 * has a virtual clock, on which an op takes as long as it would elsewhere; without, nothing takes time. Scratch is what this
 * machine's kernels would take.
 */
import { InternalError } from "../errors/errors.ts";
import type { Backend, IssuedOp, OpenedDisk } from "./device.ts";
import type { TagNames } from "./failure.ts";
import type { Tier } from "./ledger.ts";
import { loadNative } from "./native.ts";
import type { Span } from "./ops.ts";
import { type Event, type QueueName, queueNames } from "./queue.ts";
import { type OpCost, VirtualClock } from "./virtual-clock.ts";

/** What ops cost on some machine. */
export interface Costs {
  of(queue: QueueName, op: Pick<IssuedOp, "name" | "args">): OpCost;
  /** Of what ops share; 1 where it is left out. */
  readonly capacity: Readonly<Record<string, number>>;
}

const regions: Record<Tier, number> = { device: 0, host: 1, disk: 2 };
const free: OpCost = { seconds: 0, uses: [] };

export class SimulatedBackend implements Backend {
  readonly name = "simulated";
  tagNames: TagNames = String;
  readonly clock: VirtualClock;
  readonly #threads: number;
  readonly #costs: Costs | undefined;
  readonly #issued = Object.fromEntries(queueNames.map((q) => [q, 0])) as Record<QueueName, number>;

  /**
   * @param threads of the compute and update queues: scratch depends on them
   * @param costs undefined: an op is done when it is issued
   */
  constructor(threads: number, costs?: Costs) {
    this.#threads = threads;
    this.#costs = costs;
    this.clock = new VirtualClock(costs?.capacity);
  }

  region(tier: Tier): number {
    return regions[tier];
  }

  issue(queue: QueueName, op: IssuedOp): number {
    return this.#given(queue, this.#costs && { cost: this.#costs.of(queue, op) });
  }

  scratchBytes(queue: QueueName, op: number, args: Float64Array): number {
    return loadNative().scratchBytes(op, args, queue === "compute" || queue === "update" ? this.#threads : 1);
  }

  wait(queue: QueueName, awaited: Event): number {
    if (awaited.sequence > this.#issued[awaited.queue])
      throw new InternalError(`a wait for an op that was never issued`);
    return this.#given(queue, this.#costs && { awaited });
  }

  async reached(event: Event): Promise<void> {
    if (this.#costs) this.clock.runUntil(event);
  }

  read(_span: Span, into: Uint8Array, declared: Uint8Array): void {
    if (declared.byteLength !== into.byteLength) throw new InternalError("a simulated read needs its declared value");
    into.set(declared);
  }

  lock(): boolean {
    return true;
  }

  upload(queue: QueueName): number {
    return this.#given(queue, this.#costs && { cost: free });
  }

  now(): number {
    return this.clock.now;
  }

  measure(queue: QueueName, enabled: boolean): Float64Array {
    return this.clock.measure(queue, enabled);
  }

  async openDisk(): Promise<OpenedDisk> {
    return { swap: 0, memoryBytes: 0, notices: [] };
  }

  dispose(): void {}

  /** Without costs nobody asks when something was. */
  #given(queue: QueueName, work: Parameters<VirtualClock["issue"]>[1] | undefined): number {
    if (work) this.clock.issue(queue, work);
    return ++this.#issued[queue];
  }
}
