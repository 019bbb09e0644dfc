/** Elements of a flat buffer in memory. They are always counted in the whole flat buffer, so code that walks them need not know how much of it is held. */
import type { Device, DeviceBuffer } from "../device/device.ts";
import { type DType, dtypeBytes } from "../device/dtype.ts";
import { type FloatType, toFloat32 } from "../device/halves.ts";
import type { MemoryLabel } from "../device/ledger.ts";
import type { Span } from "../device/ops.ts";
import { computeQueueOf, type MemoryTier, type QueueName, queueTiers } from "../device/queue.ts";
import { InternalError } from "../errors/errors.ts";

/** Elements [start, end) of a flat buffer. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** [start, end) in pieces of at most `elements`. */
export function cutRange({ start, end }: Range, elements: number): Range[] {
  const pieces: Range[] = [];
  for (let first = start; first < end; first += elements)
    pieces.push({ start: first, end: Math.min(first + elements, end) });
  return pieces;
}

export interface Elements extends Range {
  readonly dtype: DType;
  readonly tier: MemoryTier;
  /** The queue that computes on them. */
  readonly queue: QueueName;
  /** The address of an element of the flat buffer. */
  at(element: number): Span;
}

/** An allocation for some elements: all, or a rank's range, or a piece of it. */
export class FlatBuffer implements Elements {
  readonly start: number;
  readonly end: number;
  readonly dtype: DType;
  readonly tier: MemoryTier;
  readonly buffer: DeviceBuffer;
  readonly #device: Device;

  /** @param queue that touches it first */
  constructor(
    device: Device,
    label: MemoryLabel,
    range: Range,
    dtype: DType,
    queue: QueueName = "compute",
    tier: MemoryTier = queueTiers[queue][0],
  ) {
    this.#device = device;
    this.start = range.start;
    this.end = range.end;
    this.dtype = dtype;
    this.tier = tier;
    this.buffer = device.allocate(label, (range.end - range.start) * dtypeBytes[dtype], queue, tier);
  }

  get queue(): QueueName {
    return computeQueueOf[this.tier];
  }

  at(element: number): Span {
    if (element < this.start || element > this.end)
      throw new InternalError(`element ${element} is not in the range [${this.start}, ${this.end}) that is held`);
    return this.buffer.at((element - this.start) * dtypeBytes[this.dtype]);
  }

  /** @param queue that used it last */
  free(queue: QueueName = this.queue): void {
    this.#device.free(this.buffer, queue);
  }

  /** Sets [from, from + count) to zero, on its tier's queue. */
  zero(from = this.start, count = this.end - this.start): void {
    zeroElements(this.#device, this, from, count);
  }
}

export function zeroElements(device: Device, to: Elements, from: number, count: number): void {
  device.issue(to.queue, "fill", { count, dtype: to.dtype, value: 0, dst: to.at(from) });
}

/** Fills `into` with the fp32 values of the elements from `offset` on, counted within the flat buffer, as they are now (see Device.look). */
export function elementsNow(device: Device, from: Elements, offset: number, into: Float32Array<ArrayBuffer>): void {
  if (from.dtype === "f32") device.look(from.at(offset), new Uint8Array(into.buffer, into.byteOffset, into.byteLength));
  else {
    const bytes = new Uint8Array(into.length * dtypeBytes[from.dtype]);
    device.look(from.at(offset), bytes);
    into.set(toFloat32(bytes, from.dtype.toUpperCase() as FloatType));
  }
}

/** The same once their queue has done what it was given. */
export async function readElements(
  device: Device,
  from: Elements,
  offset: number,
  into: Float32Array<ArrayBuffer>,
): Promise<void> {
  await device.reached(device.mark(from.queue));
  elementsNow(device, from, offset, into);
}
