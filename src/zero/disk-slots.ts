/**
 * Host memory between the disk and whoever computes: a few slots that are used in turn. So a slot's next read waits until its
 * last write is over, and while one slot is computed on, others are read and written.
 */
import type { Device, DeviceBuffer } from "../device/device.ts";
import { type DType, dtypeBytes } from "../device/dtype.ts";
import type { Span } from "../device/ops.ts";
import { computeQueueOf, type Event, type QueueName } from "../device/queue.ts";
import { diskAlignmentBytes } from "../device/swap.ts";
import { InternalError } from "../errors/errors.ts";
import type { Elements, Range } from "./elements.ts";

export const roundToDisk = (bytes: number): number => Math.ceil(bytes / diskAlignmentBytes) * diskAlignmentBytes;

/** Elements of a flat buffer in a slot. */
export class SlotView implements Elements {
  readonly start: number;
  readonly end: number;
  readonly dtype: DType;
  readonly tier = "host";
  readonly queue = computeQueueOf.host;
  readonly #span: Span;

  constructor(span: Span, range: Range, dtype: DType) {
    this.#span = span;
    this.start = range.start;
    this.end = range.end;
    this.dtype = dtype;
  }

  at(element: number): Span {
    if (element < this.start || element > this.end)
      throw new InternalError(`element ${element} is not in the range [${this.start}, ${this.end}) of a slot`);
    return { ...this.#span, offset: this.#span.offset + (element - this.start) * dtypeBytes[this.dtype] };
  }
}

export interface Slot {
  readonly base: Span;
  /** What used it last. */
  last: readonly Event[];
  /** It was read ahead of its use, and must not be given away before. */
  isHeld: boolean;
  /** Whose values it holds, until it is given away. */
  content: object | undefined;
}

/**
 * Calls `look` with a slot that holds `content`, read to the end. Nobody holds the slot meanwhile: where another took it before the
 * look, it is read again.
 * @param last where it was found before
 */
export async function lookAt(
  device: Device,
  content: object,
  last: Slot | undefined,
  read: () => Slot,
  look: (slot: Slot) => void,
): Promise<void> {
  for (let slot = last; ; ) {
    if (slot?.content !== content) slot = read();
    const { last: users } = slot;
    for (const event of users) await device.reachedAside(event);
    if (slot.content === content && slot.last === users) return look(slot);
  }
}

export class SlotRing {
  readonly #device: Device;
  readonly #buffers: readonly DeviceBuffer[];
  readonly #slots: readonly Slot[];
  #taken = 0;

  /** @param slotBytes a multiple of the disk's alignment */
  constructor(device: Device, slots: number, slotBytes: number) {
    this.#device = device;
    // Direct I/O wants aligned addresses, and the arena's alignment is smaller.
    this.#buffers = Array.from({ length: slots }, () =>
      device.allocate("staging", slotBytes + diskAlignmentBytes, "diskRead", "host"),
    );
    this.#slots = this.#buffers.map((buffer) => {
      const { region, offset } = buffer.at();
      return { base: { region, offset: roundToDisk(offset) }, last: [], isHeld: false, content: undefined };
    });
  }

  /** The next slot; ops that are issued to `queue` from now on find it free. */
  take(queue: QueueName): Slot {
    const next = (): Slot => this.#slots[this.#taken++ % this.#slots.length]!;
    let slot = next();
    for (let tried = 1; slot.isHeld; tried++) {
      if (tried > this.#slots.length) throw new InternalError("all slots of a ring are held");
      slot = next();
    }
    for (const event of slot.last) this.#device.wait(queue, event);
    slot.content = undefined;
    return slot;
  }

  dispose(): void {
    for (const buffer of this.#buffers) this.#device.free(buffer, "diskWrite");
  }
}
