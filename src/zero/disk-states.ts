/**
 * Optimizer states on disk (ZeRO-Infinity, SC21, section 5.2.2): every sub-group is a record of fp32 streams that is read before its
 * update and written after it. While one record is updated, the next ones are read and the last one is written.
 */
import type { Device, DeviceBuffer } from "../device/device.ts";
import { dtypeBytes } from "../device/dtype.ts";
import type { OptimizerPart } from "../device/ledger.ts";
import type { Event } from "../device/queue.ts";
import { roundToDisk, type Slot, SlotRing, SlotView } from "./disk-slots.ts";
import type { Range } from "./elements.ts";
import type { StatesInMemory } from "./segment.ts";

/** A sub-group's states on disk: elements [start, end) of a flat buffer. */
export interface StateRecord extends Range {
  readonly streams: ReadonlyMap<OptimizerPart, DeviceBuffer>;
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
  #streamBytes = 0;

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
    const records: StateRecord[] = [];
    for (let start = range.start; start < range.end; start += subGroupElements) {
      const end = Math.min(start + subGroupElements, range.end);
      this.#streamBytes = Math.max(this.#streamBytes, roundToDisk((end - start) * dtypeBytes.f32));
      const bytes = (end - start) * dtypeBytes.f32;
      const streams = new Map(parts.map((part) => [part, this.#device.allocate(part, bytes, "diskWrite", "disk")]));
      records.push({ start, end, streams, written: { queue: "diskWrite", sequence: 0 } });
    }
    return records;
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

  /** fp32 values of [offset, offset + count) of a part, once they are written. */
  async read(
    record: StateRecord,
    part: OptimizerPart,
    offset: number,
    count: number,
  ): Promise<Float32Array<ArrayBuffer>> {
    const device = this.#device;
    const slot = this.#read(record, part);
    const span = this.#view(record, slot).part(part).at(offset);
    const bytes = await device.read(span, "f32", count, new Float32Array(count), "diskRead");
    return new Float32Array(bytes.buffer as ArrayBuffer);
  }

  /** Gives the room of records back. */
  release(records: readonly StateRecord[]): void {
    for (const { streams } of records) for (const stream of streams.values()) this.#device.free(stream, "diskWrite");
  }

  dispose(): void {
    this.#ring?.dispose();
  }

  get #slots(): SlotRing {
    const { parts, slots } = this.#options;
    this.#ring ??= new SlotRing(this.#device, slots, parts.length * this.#streamBytes);
    return this.#ring;
  }

  #read(record: StateRecord, only?: OptimizerPart): Slot {
    const device = this.#device;
    const slot = this.#slots.take("diskRead");
    device.wait("diskRead", record.written);
    for (const [part, stream] of record.streams)
      if (only === undefined || part === only) device.disk("diskRead", stream, this.#at(slot, part));
    slot.last = [device.mark("diskRead")];
    return slot;
  }

  #write(record: StateRecord, slot: Slot, readers: readonly Event[] = []): void {
    const device = this.#device;
    device.wait("diskWrite", device.mark("update"));
    for (const [part, stream] of record.streams) device.disk("diskWrite", stream, this.#at(slot, part));
    record.written = device.mark("diskWrite");
    slot.last = [record.written, ...readers];
  }

  #at(slot: Slot, part: OptimizerPart) {
    const index = this.#options.parts.indexOf(part);
    return { ...slot.base, offset: slot.base.offset + index * this.#streamBytes };
  }

  #view(record: StateRecord, slot: Slot): StatesInMemory {
    return { part: (part) => new SlotView(this.#at(slot, part), record, "f32") };
  }
}
