/** The CPU device: native kernels on native threads, memory in regions that ranks share. */
import type { Backend } from "./device.ts";
import { deviceFailure, type TagNames } from "./failure.ts";
import type { Tier } from "./ledger.ts";
import { loadNative, type Native } from "./native.ts";
import type { Span } from "./ops.ts";
import { type Event, type QueueName, queueNames } from "./queue.ts";

export interface CpuOptions {
  /** Workers of the compute queue. Collectives have one of their own. */
  readonly threads: number;
  /** The region that holds the device tier: this rank's shared arena, or undefined for memory of this process alone. */
  readonly deviceRegion?: number;
  readonly arenaBytes: number;
}

export class CpuBackend implements Backend {
  readonly name = "cpu";
  readonly native: Native;
  tagNames: TagNames = (tag) => `collective ${tag}`;
  readonly #regions: Record<Tier, number>;
  readonly #queues: Record<QueueName, number>;
  readonly #threads: Record<QueueName, number>;

  constructor(options: CpuOptions) {
    this.native = loadNative();
    const own = (): number => this.native.createRegion(options.arenaBytes);
    this.#regions = { device: options.deviceRegion ?? own(), host: own(), disk: -1 };
    this.#threads = { compute: options.threads, collective: 1 };
    this.#queues = { compute: 0, collective: 0 };
    for (const q of queueNames) this.#queues[q] = this.native.createQueue(this.#threads[q]);
  }

  region(tier: Tier): number {
    return this.#regions[tier];
  }

  issue(queue: QueueName, op: number, args: Float64Array): number {
    return this.native.issue(this.#queues[queue], op, args);
  }

  scratchBytes(queue: QueueName, op: number, args: Float64Array): number {
    return this.native.scratchBytes(op, args, this.#threads[queue]);
  }

  wait(queue: QueueName, event: Event): number {
    return this.native.wait(this.#queues[queue], this.#queues[event.queue], event.sequence);
  }

  async reached(event: Event): Promise<void> {
    try {
      await this.native.reached(this.#queues[event.queue], event.sequence);
    } catch (error) {
      throw deviceFailure(error, this.tagNames);
    }
  }

  read(span: Span, into: Uint8Array): void {
    this.native.readRegion(span.region, span.offset, into);
  }

  upload(queue: QueueName, to: Span, from: Uint8Array): number {
    return this.native.upload(this.#queues[queue], to.region, to.offset, from);
  }

  dispose(): void {
    for (const q of queueNames) this.native.destroyQueue(this.#queues[q]);
    for (const tier of ["device", "host"] as const) this.native.closeRegion(this.#regions[tier]);
  }
}
