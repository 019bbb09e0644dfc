/**
 * Optimizer states on disk (ZeRO-Infinity, SC21, section 5.2.2): every sub-group is a record of fp32 streams that is read before its
 * update and written after it. While one record is updated, the next ones are read and the last one is written.
 */
import type { Device, DeviceBuffer } from "../device/device.ts";
import { dtypeBytes } from "../device/dtype.ts";
import type { OptimizerPart } from "../device/ledger.ts";
import type { Span } from "../device/ops.ts";
import type { Event } from "../device/queue.ts";
import { InternalError } from "../errors/errors.ts";
import { lookAt, roundToDisk, type Slot, SlotRing, SlotView } from "./disk-slots.ts";
import { cutRange, elementsNow, type Range } from "./elements.ts";
import type { StatesInMemory } from "./segment.ts";

/** A sub-group's states on disk: elements [start, end) of a flat buffer, its streams side by side. */
export interface StateRecord extends Range {
  readonly what: "states";
  readonly streams: readonly DeviceBuffer[];
  readonly offset: number;
  readonly bytes: number;
  /** When what is on disk is complete. */
  written: Event;
}

export interface DiskStatesOptions {
  /** Streams of a record, in order. */
  readonly parts: readonly OptimizerPart[];
  readonly slots: number;
  readonly subGroupElements: number;
  /** Whether records are read before the update before them is over, and written while the next one runs. */
  readonly pipelineRead: boolean;
  readonly pipelineWrite: boolean;
}

export class DiskStates {
  readonly #device: Device;
  readonly #options: DiskStatesOptions;
  #ring: SlotRing | undefined;
  /** Of the largest record. */
  #largestBytes = 0;
  /** What a look read last. */
  #lastLook: Slot | undefined;

  constructor(device: Device, options: DiskStatesOptions) {
    this.#device = device;
    this.#options = options;
  }

  get parts(): readonly OptimizerPart[] {
    return this.#options.parts;
  }

  /** Room for the states of [start, end), sub-group by sub-group. */
  place(range: Range): StateRecord[] {
    const { parts, subGroupElements } = this.#options;
    return cutRange(range, subGroupElements).map(({ start, end }) => {
      const streamBytes = roundToDisk((end - start) * dtypeBytes.f32);
      const streams = parts.map((part) => this.#device.allocate(part, streamBytes, "diskWrite", "disk"));
      const offsets = streams.map((stream) => stream.at().offset);
      if (offsets.some((offset, i) => offset !== offsets[0]! + i * streamBytes))
        throw new InternalError("the streams of a record on disk do not lie side by side");
      const bytes = parts.length * streamBytes;
      this.#largestBytes = Math.max(this.#largestBytes, bytes);
      const written: Event = { queue: "diskWrite", sequence: 0 };
      return { what: "states", start, end, streams, offset: offsets[0]!, bytes, written };
    });
  }

  /**
   * Calls `body` with a record's states in memory, as they are on disk; ops on the host's queue may read and write them.
   * @param body returns what else reads them, and must be over before their memory is used again
   */
  update(record: StateRecord, body: (states: StatesInMemory) => readonly Event[]): void {
    const device = this.#device;
    const { pipelineRead, pipelineWrite } = this.#options;
    if (!pipelineRead) device.wait("diskRead", device.mark("update"));
    if (!pipelineWrite) device.wait("update", device.mark("diskWrite"));
    const slot = this.#read(record);
    device.wait("update", device.mark("diskRead"));
    const readers = body(this.#view(record, slot));
    this.#write(record, slot, readers);
  }

  /** Puts first states on disk; `body` writes all of them. */
  async fill(record: StateRecord, body: (states: StatesInMemory) => Promise<void>): Promise<void> {
    const slot = this.#slots.take("update");
    await body(this.#view(record, slot));
    this.#write(record, slot);
  }

  /** Fills `into` with fp32 values of a part from element `offset` on, once they are written; no update of the record may be under way. */
  read(record: StateRecord, part: OptimizerPart, offset: number, into: Float32Array<ArrayBuffer>): Promise<void> {
    const device = this.#device;
    const look = (slot: Slot): void => {
      this.#lastLook = slot;
      elementsNow(device, this.#view(record, slot).part(part), offset, into);
    };
    return lookAt(device, record, this.#lastLook, () => this.#look(record), look);
  }

  /** Gives the room of records back. */
  release(records: readonly StateRecord[]): void {
    for (const { streams } of records) for (const stream of streams) this.#device.free(stream, "diskWrite");
  }

  dispose(): void {
    this.#ring?.dispose();
  }

  get #slots(): SlotRing {
    const { slots } = this.#options;
    this.#ring ??= new SlotRing(this.#device, slots, this.#largestBytes);
    return this.#ring;
  }

  #read(record: StateRecord): Slot {
    return this.#readWith(record, (slot) => this.#device.disk("diskRead", record, slot.base));
  }

  /** The same aside of training. */
  #look(record: StateRecord): Slot {
    return this.#readWith(record, (slot) => this.#device.diskLook(record, slot.base));
  }

  #readWith(record: StateRecord, read: (slot: Slot) => Event): Slot {
    const slot = this.#slots.take("diskRead");
    this.#device.wait("diskRead", record.written);
    slot.last = [read(slot)];
    slot.content = record;
    return slot;
  }

  #write(record: StateRecord, slot: Slot, readers: readonly Event[] = []): void {
    const device = this.#device;
    device.wait("diskWrite", device.mark("update"));
    record.written = device.disk("diskWrite", record, slot.base);
    slot.last = [record.written, ...readers];
    slot.content = record;
  }

  #view(record: StateRecord, slot: Slot): StatesInMemory {
    const { parts } = this.#options;
    const streamBytes = record.bytes / parts.length;
    const at = (part: OptimizerPart): Span => ({
      ...slot.base,
      offset: slot.base.offset + parts.indexOf(part) * streamBytes,
    });
    return { part: (part) => new SlotView(at(part), record, "f32") };
  }
}
