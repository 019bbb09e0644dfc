/**
 * Parameters on disk (ZeRO-Infinity, SC21, section 5.1): every rank keeps its own range of a flat buffer in records, one a sub-group,
 * writes each as soon as it is updated, and reads them back for a gather, through slots of host memory.
 */
import type { Device, DeviceBuffer } from "../device/device.ts";
import { type DType, dtypeBytes } from "../device/dtype.ts";
import type { Span } from "../device/ops.ts";
import type { Event } from "../device/queue.ts";
import { InternalError } from "../errors/errors.ts";
import { lookAt, roundToDisk, type Slot, SlotRing, SlotView } from "./disk-slots.ts";
import { type Elements, elementsNow, type FlatBuffer, type Range } from "./elements.ts";
import type { CrossingBuffer, RestingParameters } from "./parameters.ts";

interface ParameterRecord extends Range {
  readonly what: "parameters";
  readonly stored: DeviceBuffer;
  readonly offset: number;
  readonly bytes: number;
  /** Where it begins in a slot, in bytes. */
  readonly slotOffset: number;
  /** When what is on disk is complete. */
  written: Event;
}

/** The slots that all parameters on disk share. */
export class DiskParameterSlots {
  readonly #device: Device;
  readonly #slots: number;
  #slotBytes = 0;
  #ring: SlotRing | undefined;
  #ahead = 0;

  /** @param slots two at least: one is read while another is in use */
  constructor(device: Device, slots: number) {
    this.#device = device;
    this.#slots = Math.max(2, slots);
  }

  /** Before the first slot is taken. */
  makeRoom(bytes: number): void {
    this.#slotBytes = Math.max(this.#slotBytes, bytes);
  }

  get ring(): SlotRing {
    this.#ring ??= new SlotRing(this.#device, this.#slots, this.#slotBytes);
    return this.#ring;
  }

  /** Whether one more range may be read ahead of its use. */
  get hasRoomAhead(): boolean {
    return this.#ahead < this.#slots - 1;
  }

  noteAhead(change: 1 | -1): void {
    this.#ahead += change;
  }

  dispose(): void {
    this.#ring?.dispose();
  }
}

export class DiskParameters implements RestingParameters {
  readonly start: number;
  readonly end: number;
  readonly dtype: DType;
  readonly tier = "disk";
  readonly buffer = undefined;
  readonly isMaster = false;
  readonly fetchQueue = "up";
  readonly #device: Device;
  readonly #slots: DiskParameterSlots;
  readonly #crossing: CrossingBuffer;
  readonly #records: readonly ParameterRecord[];
  #ahead: Slot | undefined;
  /** What a look read last. */
  #lastLook: Slot | undefined;

  /** @param pieces of the own range, as updates will write them */
  constructor(
    device: Device,
    slots: DiskParameterSlots,
    crossing: CrossingBuffer,
    own: Range,
    pieces: readonly Range[],
    dtype: DType,
  ) {
    this.#device = device;
    this.#slots = slots;
    this.#crossing = crossing;
    this.start = own.start;
    this.end = own.end;
    this.dtype = dtype;
    let slotOffset = 0;
    this.#records = pieces.map(({ start, end }) => {
      const bytes = (end - start) * dtypeBytes[dtype];
      const stored = device.allocate("parameters", bytes, "diskWrite", "disk");
      const { offset } = stored.at();
      const place = { what: "parameters" as const, stored, offset, bytes: stored.bytes, slotOffset };
      const record = { start, end, ...place, written: { queue: "diskWrite", sequence: 0 } as const };
      slotOffset += roundToDisk(bytes);
      return record;
    });
    slots.makeRoom(slotOffset);
  }

  /** Reads the own range into host memory ahead of its use, if there is room. */
  readAhead(): void {
    if (this.#ahead || !this.#slots.hasRoomAhead) return;
    this.#ahead = this.#readAll();
    this.#ahead.isHeld = true;
    this.#slots.noteAhead(1);
  }

  fetch(_own: Range, whole: FlatBuffer, _ready: readonly Event[]): Elements {
    const device = this.#device;
    const slot = this.#ahead ?? this.#readAll();
    this.#letGoAhead();
    for (const event of slot.last) device.wait("up", event);
    for (const record of this.#records) {
      const { start, end } = record;
      device.cross("up", this.#view(slot, record).at(start), whole.at(start), end - start, this.dtype);
    }
    slot.last = [device.mark("up")];
    device.wait("collective", device.mark("up"));
    return whole;
  }

  refresh(range: Range, master: Elements, write: (copy: Elements | undefined) => void): readonly Event[] {
    const device = this.#device;
    const record = this.#recordOf(range);
    this.#letGoAhead(); // what was read before is old now
    this.#lastLook = undefined;
    if (master.tier === "host") {
      const slot = this.#slots.ring.take("update");
      write(this.#view(slot, record));
      return [this.#write(slot, record, device.mark("update"))];
    }
    const staging = this.#crossing.make(range, this.dtype, master.tier);
    write(staging);
    const slot = this.#slots.ring.take("down");
    device.wait("down", device.mark(master.queue));
    const { start, end } = range;
    const to = this.#view(slot, record).at(start);
    const crossed = device.cross("down", staging.at(start), to, end - start, this.dtype);
    this.#crossing.letGo(staging, "down");
    return [this.#write(slot, record, crossed)];
  }

  async fill(_range: Range, write: (to: Elements) => Promise<void>): Promise<void> {
    for (const record of this.#records) {
      const slot = this.#slots.ring.take("update");
      await write(this.#view(slot, record));
      this.#write(slot, record, this.#device.mark("update"));
    }
  }

  read(offset: number, into: Float32Array<ArrayBuffer>): Promise<void> {
    const device = this.#device;
    const look = (slot: Slot): void => {
      this.#lastLook = slot;
      for (const record of this.#records) {
        const start = Math.max(record.start, offset);
        const end = Math.min(record.end, offset + into.length);
        if (start < end)
          elementsNow(device, this.#view(slot, record), start, into.subarray(start - offset, end - offset));
      }
    };
    const read = (): Slot => this.#readWith((record, to) => device.diskLook(record, to));
    return lookAt(device, this, this.#lastLook, read, look);
  }

  dispose(): void {
    for (const { stored } of this.#records) this.#device.free(stored, "diskWrite");
  }

  #letGoAhead(): void {
    if (!this.#ahead) return;
    this.#ahead.isHeld = false;
    this.#ahead = undefined;
    this.#slots.noteAhead(-1);
  }

  #readAll(): Slot {
    return this.#readWith((record, to) => this.#device.disk("diskRead", record, to));
  }

  #readWith(read: (record: ParameterRecord, to: Span) => Event): Slot {
    const device = this.#device;
    const slot = this.#slots.ring.take("diskRead");
    for (const record of this.#records) {
      device.wait("diskRead", record.written);
      read(record, this.#view(slot, record).at(record.start));
    }
    slot.last = [device.mark("diskRead")];
    slot.content = this;
    return slot;
  }

  #write(slot: Slot, record: ParameterRecord, filled: Event): Event {
    const device = this.#device;
    device.wait("diskWrite", filled);
    record.written = device.disk("diskWrite", record, this.#view(slot, record).at(record.start));
    slot.last = [record.written];
    return record.written;
  }

  #recordOf({ start, end }: Range): ParameterRecord {
    const record = this.#records.find((r) => r.start === start && r.end === end);
    if (!record) throw new InternalError(`parameters [${start}, ${end}) are no record on disk`);
    return record;
  }

  #view(slot: Slot, record: ParameterRecord): SlotView {
    const base = { ...slot.base, offset: slot.base.offset + record.slotOffset };
    return new SlotView(base, record, this.dtype);
  }
}
