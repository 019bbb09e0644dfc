/**
 * A unit's flat buffer as a rank holds it. Elements are always counted in the whole flat buffer; a `FlatBuffer` is memory for
 * some of them (all, or this rank's range), so code that walks elements need not know which.
 */
import type { Device, DeviceBuffer } from "../device/device.ts";
import { type DType, dtypeBytes } from "../device/dtype.ts";
import type { MemoryLabel, OptimizerPart } from "../device/ledger.ts";
import type { Segment, Span } from "../device/ops.ts";
import type { Event, QueueName } from "../device/queue.ts";
import { InternalError } from "../errors/errors.ts";
import type { FlatLayout } from "../plan/layout.ts";
import type { Plan } from "../plan/plan.ts";
import type { Split } from "../plan/residence.ts";
import { Tensor } from "../tensor/tensor.ts";

/** Elements [start, end) of a flat buffer. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

export class FlatBuffer implements Range {
  readonly start: number;
  readonly end: number;
  readonly dtype: DType;
  readonly buffer: DeviceBuffer;
  readonly #device: Device;

  constructor(device: Device, label: MemoryLabel, range: Range, dtype: DType, queue: QueueName = "compute") {
    this.#device = device;
    this.start = range.start;
    this.end = range.end;
    this.dtype = dtype;
    this.buffer = device.allocate(label, (range.end - range.start) * dtypeBytes[dtype], queue);
  }

  /** The address of an element of the flat buffer. */
  at(element: number): Span {
    if (element < this.start || element > this.end)
      throw new InternalError(`element ${element} is not in the range [${this.start}, ${this.end}) that is held`);
    return this.buffer.at((element - this.start) * dtypeBytes[this.dtype]);
  }

  /** @param queue that used it last */
  free(queue: QueueName = "compute"): void {
    this.#device.free(this.buffer, queue);
  }

  /** Sets [from, from + count) to zero, on the compute queue. */
  zero(from = this.start, count = this.end - this.start): void {
    const args = { count, dtype: this.dtype, value: 0, dst: this.at(from) };
    this.#device.issue("compute", "fill", args);
  }
}

/** Everything of one flat buffer that a rank holds. Which fields are whole and which are shards follows from the residences. */
export class FlatState {
  readonly layout: FlatLayout;
  /** This rank's range of the flat buffer. */
  readonly own: Range;
  readonly whole: Range;
  /** Elements whose optimizer states are held here: what this rank updates. */
  readonly updates: Range;
  /** Parameters at rest. */
  readonly parameters: FlatBuffer;
  /** fp32 master weights; in fp32 training the parameters themselves. Undefined when frozen. */
  readonly master: FlatBuffer | undefined;
  readonly moments: ReadonlyMap<OptimizerPart, FlatBuffer>;
  /** Gradients kept between micro-batches. Undefined when frozen. */
  readonly gradients: FlatBuffer | undefined;
  /** Whole copy of persistent sharded parameters. */
  readonly persistentCopy: FlatBuffer | undefined;

  /** Whole parameters made by gather. */
  gathered: FlatBuffer | undefined;
  /** Where gradients are being produced: a bucket, or the resting gradients themselves. */
  produced: FlatBuffer | undefined;
  /** Tensors whose gradient has been produced in this micro-batch. */
  readonly written = new Set<string>();
  /** Whether code of its unit is being run: only then gathered values may be read. */
  isOpen = false;
  /** When the values at rest (or the last gather) are complete. */
  ready: Event = { queue: "compute", sequence: 0 };
  /** When the gradients at rest are complete. */
  settled: Event = { queue: "collective", sequence: 0 };
  #awaited: Event | undefined;
  #views: ReadonlyMap<string, Tensor> | undefined;
  readonly #device: Device;

  constructor(device: Device, plan: Plan, layout: FlatLayout, rank: number, moments: readonly OptimizerPart[]) {
    const { optimizer, gradients, parameters } = plan.residences;
    this.#device = device;
    this.layout = layout;
    this.own = { start: rank * layout.rangeElements, end: (rank + 1) * layout.rangeElements };
    this.whole = { start: 0, end: layout.paddedElements };
    const range = (split: Split): Range => (split === "whole" ? this.whole : this.own);
    this.parameters = new FlatBuffer(device, "parameters", range(parameters.split), parameters.dtype);
    const sharded = parameters.split === "shard";
    if (sharded && layout.persistent)
      this.persistentCopy = new FlatBuffer(device, "gathered", this.whole, parameters.dtype);
    const states = range(optimizer.split);
    this.updates = states;
    const separateMaster = parameters.dtype !== "f32";
    if (layout.trainable) {
      this.master = separateMaster ? new FlatBuffer(device, "master", states, "f32") : this.parameters;
      this.gradients = new FlatBuffer(device, "gradients", range(gradients.split), gradients.dtype);
    }
    const trained = layout.trainable ? moments : [];
    this.moments = new Map(trained.map((part) => [part, new FlatBuffer(device, part, states, "f32")]));
  }

  /** Whether gather has to make the parameters whole. */
  get needsGather(): boolean {
    return this.parameters.end - this.parameters.start < this.layout.paddedElements && !this.persistentCopy;
  }

  /** Memory in which all parameters are whole now, if there is any. */
  get usable(): FlatBuffer | undefined {
    return this.needsGather ? this.gathered : (this.persistentCopy ?? this.parameters);
  }

  /** The values of a tensor, where they are usable; ops issued from now on wait until they are complete. */
  value(name: string): Tensor | undefined {
    const buffer = this.usable;
    if (!buffer || (this.needsGather && !this.isOpen)) return undefined;
    if (this.#awaited !== this.ready) this.#device.wait("compute", this.ready);
    this.#awaited = this.ready;
    this.#views ??= new Map(
      this.layout.pieces.map((p) => [p.name, viewOf(this.#device, buffer, p.offset, p.shape)] as const),
    );
    return this.#views.get(name);
  }

  forgetViews(): void {
    this.#views = undefined;
  }

  dispose(): void {
    const { parameters, master, gradients, persistentCopy, gathered, produced, moments } = this;
    const all = [parameters, master, gradients, persistentCopy, gathered, produced, ...moments.values()];
    for (const buffer of new Set(all)) buffer?.free();
  }
}

export function viewOf(device: Device, buffer: FlatBuffer, offset: number, shape: readonly number[]): Tensor {
  const bytes = (offset - buffer.start) * dtypeBytes[buffer.dtype];
  return Tensor.borrow(device, buffer.buffer, bytes, shape, buffer.dtype);
}

/** A flat buffer in a collective: `whole` holds all ranges, `own` at least this rank's. */
export interface CollectivePart {
  readonly state: FlatState;
  readonly whole: FlatBuffer;
  readonly own: FlatBuffer;
}

/** The core's limit on pieces of one call. */
const maxSegments = 64;

/** Pieces for collectives of at most `bucketElements` elements each (all ranges together), call by call. */
export function segmentCalls(parts: readonly CollectivePart[], bucketElements: number, worldSize: number): Segment[][] {
  const perRange = Math.max(1, Math.floor(bucketElements / worldSize));
  const calls: Segment[][] = [];
  let call: Segment[] = [];
  let room = perRange;
  for (const { state, whole, own } of parts) {
    const stride = state.layout.rangeElements;
    for (let start = 0; start < stride; ) {
      if (room === 0 || call.length === maxSegments) {
        calls.push(call);
        call = [];
        room = perRange;
      }
      const count = Math.min(room, stride - start);
      call.push({ whole: whole.at(0), stride, start, count, own: own.at(state.own.start + start) });
      start += count;
      room -= count;
    }
  }
  if (call.length > 0) calls.push(call);
  return calls;
}
