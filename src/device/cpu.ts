/** The CPU device: native kernels on native threads, memory in regions that ranks share. */
import type { Backend, DiskOptions, IssuedOp, OpenedDisk } from "./device.ts";
import { deviceFailure, type TagNames } from "./failure.ts";
import type { Tier } from "./ledger.ts";
import { mapMemory } from "./map-memory.ts";
import { loadNative, type Native } from "./native.ts";
import type { Span } from "./ops.ts";
import type { Event, QueueName } from "./queue.ts";
import { Swap } from "./swap.ts";
import { measureShares } from "./swap-speed.ts";
import { nowMicroseconds } from "./timeline.ts";

export interface CpuOptions {
  /** Workers of the compute queue, and of the host's update queue. All other queues have one. */
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
  /** Made when first used: most jobs need two. */
  readonly #queues = new Map<QueueName, number>();
  readonly #measured = new Set<QueueName>();
  readonly #threads: number;
  #swap: Swap | undefined;

  constructor(options: CpuOptions) {
    this.native = loadNative();
    const own = (): number => mapMemory(options.arenaBytes, () => this.native.createRegion(options.arenaBytes));
    this.#regions = { device: options.deviceRegion ?? own(), host: own(), disk: -1 };
    this.#threads = options.threads;
  }

  region(tier: Tier): number {
    return this.#regions[tier];
  }

  issue(queue: QueueName, { code, values }: IssuedOp): number {
    return this.native.issue(this.#queue(queue), code, values);
  }

  scratchBytes(queue: QueueName, op: number, args: Float64Array): number {
    return this.native.scratchBytes(op, args, this.#threadsOf(queue));
  }

  wait(queue: QueueName, event: Event): number {
    return this.native.wait(this.#queue(queue), this.#queue(event.queue), event.sequence);
  }

  async reached(event: Event): Promise<void> {
    try {
      await this.native.reached(this.#queue(event.queue), event.sequence);
    } catch (error) {
      throw deviceFailure(error, this.tagNames);
    }
  }

  read(span: Span, into: Uint8Array): void {
    this.native.readRegion(span.region, span.offset, into);
  }

  lock({ region, offset }: Span, bytes: number): boolean {
    return this.native.lockRegion(region, offset, bytes);
  }

  upload(queue: QueueName, to: Span, from: Uint8Array): number {
    return this.native.upload(this.#queue(queue), to.region, to.offset, from);
  }

  now(): number {
    return nowMicroseconds();
  }

  measure(queue: QueueName, enabled: boolean): Float64Array {
    if (enabled) this.#measured.add(queue);
    else this.#measured.delete(queue);
    const handle = this.#queues.get(queue);
    return handle === undefined ? new Float64Array() : this.native.trace(handle, enabled);
  }

  async openDisk(options: DiskOptions): Promise<OpenedDisk> {
    const { folders } = options;
    const shares = folders.length > 1 ? await measureShares(folders, options) : [1];
    this.#swap = new Swap({ ...options, shares });
    const { handle, memoryBytes, notices } = this.#swap;
    return { swap: handle, memoryBytes, notices };
  }

  dispose(): void {
    for (const queue of this.#queues.values()) this.native.destroyQueue(queue);
    for (const tier of ["device", "host"] as const) this.native.closeRegion(this.#regions[tier]);
    this.#swap?.dispose();
  }

  #threadsOf(queue: QueueName): number {
    return queue === "compute" || queue === "update" ? this.#threads : 1;
  }

  #queue(name: QueueName): number {
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      queue = this.native.createQueue(this.#threadsOf(name));
      this.native.trace(queue, this.#measured.has(name));
      this.#queues.set(name, queue);
    }
    return queue;
  }
}
