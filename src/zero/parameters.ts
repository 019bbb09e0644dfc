/**
 * Where a flat buffer's parameters rest, and their two ways: fresh values from an update to where they rest, and a rank's own range
 * from there to the device, where an all-gather reads it.
 */
import type { Device } from "../device/device.ts";
import type { DType } from "../device/dtype.ts";
import type { Tier } from "../device/ledger.ts";
import { computeQueueOf, type Event, type MemoryTier, type QueueName } from "../device/queue.ts";
import { type Elements, elementsNow, FlatBuffer, type Range } from "./elements.ts";

export interface RestingParameters extends Range {
  readonly tier: Tier;
  readonly dtype: DType;
  /** The memory itself, where they rest in memory. */
  readonly buffer: FlatBuffer | undefined;
  /** Whether an optimizer in the same tier may use them as its fp32 master. */
  readonly isMaster: boolean;
  /** The queue that first touches what a gather makes. */
  readonly fetchQueue: QueueName;
  /**
   * Brings the own range to the device; collectives that are issued from now on find it complete.
   * @param whole memory for all ranges, where the own one is put unless it rests on the device
   * @returns what the all-gather reads the own range from
   */
  fetch(own: Range, whole: FlatBuffer, ready: readonly Event[]): Elements;
  /**
   * Lets an update write [start, end): `write` is given the memory for the copy that the update makes, or nothing where the
   * master itself is enough. @returns when they are complete where they rest
   */
  refresh(range: Range, master: Elements, write: (copy: Elements | undefined) => void): readonly Event[];
  /** The same for first values, which `write` puts into memory of any tier. */
  fill(range: Range, write: (to: Elements) => Promise<void>): Promise<void>;
  /** Fills `into` with fp32 values from element `offset` on; nothing may be on its way to them. */
  read(offset: number, into: Float32Array<ArrayBuffer>): Promise<void>;
  /** Begins to bring the own range nearer, ahead of its use, where that takes long. */
  readAhead?(): void;
  /** Where updates are delayed: brings what the last update made of [start, end) to rest. @returns when it is there */
  deliver?(range: Range): readonly Event[];
  fillFresh?(write: (to: Elements) => Promise<void>): Promise<void>;
  dispose(): void;
}

/** Fresh values on their way to another tier: one piece is written while the one before crosses. */
export class CrossingBuffer {
  readonly #device: Device;
  #last: { readonly buffer: FlatBuffer; readonly queue: QueueName } | undefined;

  constructor(device: Device) {
    this.#device = device;
  }

  make(range: Range, dtype: DType, tier: MemoryTier): FlatBuffer {
    const buffer = new FlatBuffer(this.#device, "staging", range, dtype, computeQueueOf[tier]);
    this.flush(); // now, while its queue was given nothing later: who takes that memory need not wait for it
    return buffer;
  }

  /** @param queue that uses it last */
  letGo(buffer: FlatBuffer, queue: QueueName): void {
    this.flush();
    this.#last = { buffer, queue };
  }

  flush(): void {
    this.#last?.buffer.free(this.#last.queue);
    this.#last = undefined;
  }
}

/** Parameters in the memory of the device or the host. */
export class MemoryParameters implements RestingParameters {
  readonly buffer: FlatBuffer;
  readonly #device: Device;
  readonly #crossing: CrossingBuffer;

  constructor(device: Device, crossing: CrossingBuffer, range: Range, dtype: DType, tier: MemoryTier) {
    this.#device = device;
    this.#crossing = crossing;
    this.buffer = new FlatBuffer(device, "parameters", range, dtype, computeQueueOf[tier]);
  }

  get start(): number {
    return this.buffer.start;
  }

  get end(): number {
    return this.buffer.end;
  }

  get dtype(): DType {
    return this.buffer.dtype;
  }

  get tier(): MemoryTier {
    return this.buffer.tier;
  }

  get isMaster(): boolean {
    return this.dtype === "f32";
  }

  get fetchQueue(): QueueName {
    return this.tier === "device" ? "collective" : "up";
  }

  fetch(own: Range, whole: FlatBuffer, ready: readonly Event[]): Elements {
    const device = this.#device;
    for (const event of ready) device.wait(this.fetchQueue, event);
    if (this.tier === "device") return this.buffer;
    const count = own.end - own.start;
    device.wait("collective", device.cross("up", this.buffer.at(own.start), whole.at(own.start), count, this.dtype));
    return whole;
  }

  refresh({ start, end }: Range, master: Elements, write: (copy: Elements | undefined) => void): readonly Event[] {
    const device = this.#device;
    const crosses = master.tier !== this.tier;
    if (!crosses) {
      write(master === this.buffer ? undefined : this.buffer);
      return [device.mark(master.queue)];
    }
    const staging =
      master.dtype === this.dtype ? undefined : this.#crossing.make({ start, end }, this.dtype, master.tier);
    write(staging);
    const queue = this.tier === "device" ? "up" : "down";
    device.wait(queue, device.mark(master.queue));
    const from = staging ?? master;
    const crossed = device.cross(queue, from.at(start), this.buffer.at(start), end - start, this.dtype);
    if (staging) this.#crossing.letGo(staging, queue);
    return [crossed];
  }

  fill(_range: Range, write: (to: Elements) => Promise<void>): Promise<void> {
    return write(this.buffer);
  }

  async read(offset: number, into: Float32Array<ArrayBuffer>): Promise<void> {
    elementsNow(this.#device, this.buffer, offset, into);
  }

  dispose(): void {
    this.buffer.free();
  }
}
