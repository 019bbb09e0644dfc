/**
 * The simulated device: no memory, no compute, the same ledger. Every op is checked and counted like on the CPU device, and is
 * done at once. Scratch is what this machine's kernels would take.
 */
import { InternalError } from "../errors/errors.ts";
import type { Backend, OpenedDisk } from "./device.ts";
import type { TagNames } from "./failure.ts";
import type { Tier } from "./ledger.ts";
import { loadNative } from "./native.ts";
import type { Span } from "./ops.ts";
import { type Event, type QueueName, queueNames } from "./queue.ts";

const regions: Record<Tier, number> = { device: 0, host: 1, disk: 2 };

export class SimulatedBackend implements Backend {
  readonly name = "simulated";
  tagNames: TagNames = String;
  readonly #threads: number;
  readonly #issued = Object.fromEntries(queueNames.map((q) => [q, 0])) as Record<QueueName, number>;

  /** @param threads of the compute and update queues: scratch depends on them */
  constructor(threads: number) {
    this.#threads = threads;
  }

  region(tier: Tier): number {
    return regions[tier];
  }

  issue(queue: QueueName): number {
    return ++this.#issued[queue];
  }

  scratchBytes(queue: QueueName, op: number, args: Float64Array): number {
    return loadNative().scratchBytes(op, args, queue === "compute" || queue === "update" ? this.#threads : 1);
  }

  wait(queue: QueueName, event: Event): number {
    if (event.sequence > this.#issued[event.queue]) throw new InternalError(`a wait for an op that was never issued`);
    return ++this.#issued[queue];
  }

  async reached(): Promise<void> {}

  read(_span: Span, into: Uint8Array, declared: Uint8Array): void {
    if (declared.byteLength !== into.byteLength) throw new InternalError("a simulated read needs its declared value");
    into.set(declared);
  }

  lock(): boolean {
    return true;
  }

  upload(queue: QueueName): number {
    return this.issue(queue);
  }

  /** Nothing takes time here. */
  measure(): Float64Array {
    return new Float64Array();
  }

  async openDisk(): Promise<OpenedDisk> {
    return { swap: 0, memoryBytes: 0, notices: [] };
  }

  dispose(): void {}
}
