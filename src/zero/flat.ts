/**
 * A unit's flat buffer as a rank holds it. Elements are always counted in the whole flat buffer; a `FlatBuffer` is memory for
 * some of them (all, or this rank's range), so code that walks elements need not know which.
 */
import type { Device, DeviceBuffer } from "../device/device.ts";
import { type DType, dtypeBytes } from "../device/dtype.ts";
import type { MemoryLabel, OptimizerPart, Tier } from "../device/ledger.ts";
import type { Segment, Span } from "../device/ops.ts";
import { computeQueueOf, type Event, type MemoryTier, type QueueName, queueTiers } from "../device/queue.ts";
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

  /** The queue that computes on it. */
  get queue(): QueueName {
    return computeQueueOf[this.tier];
  }

  /** The address of an element of the flat buffer. */
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
    const args = { count, dtype: this.dtype, value: 0, dst: this.at(from) };
    this.#device.issue(this.queue, "fill", args);
  }
}

/** A part of what a rank updates, whose optimizer states live in one tier, where the update runs as well. */
export interface StateSegment extends Range {
  readonly tier: MemoryTier;
  /** fp32 master weights; in fp32 training the parameters themselves where these rest in the same tier. */
  readonly master: FlatBuffer;
  readonly moments: ReadonlyMap<OptimizerPart, FlatBuffer>;
  /** What the update reads. */
  readonly gradients: FlatBuffer;
  /** When the gradients are complete. */
  settled: Event;
}

/** Everything of one flat buffer that a rank holds. Which fields are whole and which are shards follows from the residences. */
export class FlatState {
  readonly layout: FlatLayout;
  /** This rank's range of the flat buffer. */
  readonly own: Range;
  readonly whole: Range;
  /** Parameters at rest. */
  readonly parameters: FlatBuffer;
  /** What this rank updates, in order; none where the parameters are frozen. */
  readonly segments: readonly StateSegment[];
  /** Gradients of all ranks' ranges, where these are kept between micro-batches. */
  readonly wholeGradients: FlatBuffer | undefined;
  /** Whole copy of persistent sharded parameters. */
  readonly persistentCopy: FlatBuffer | undefined;

  /** Whole parameters made by gather. */
  gathered: FlatBuffer | undefined;
  /** Where gradients are being produced: a bucket, or the whole gradients at rest. */
  produced: FlatBuffer | undefined;
  /** Tensors whose gradient has been produced in this micro-batch. */
  readonly written = new Set<string>();
  /** Whether code of its unit is being run: only then gathered values may be read. */
  isOpen = false;
  /** When the values at rest (or the last gather) are complete. */
  ready: readonly Event[] = [];
  #awaited: readonly Event[] | undefined;
  #views: ReadonlyMap<string, Tensor> | undefined;
  readonly #device: Device;

  constructor(device: Device, plan: Plan, layout: FlatLayout, rank: number, moments: readonly OptimizerPart[]) {
    const { gradients, parameters } = plan.residences;
    this.#device = device;
    this.layout = layout;
    this.own = { start: rank * layout.rangeElements, end: (rank + 1) * layout.rangeElements };
    this.whole = { start: 0, end: layout.paddedElements };
    const range = (split: Split): Range => (split === "whole" ? this.whole : this.own);
    const queue = computeQueueOf[parameters.tier as MemoryTier];
    this.parameters = new FlatBuffer(device, "parameters", range(parameters.split), parameters.dtype, queue);
    const sharded = parameters.split === "shard";
    if (sharded && layout.persistent)
      this.persistentCopy = new FlatBuffer(device, "gathered", this.whole, parameters.dtype);
    if (layout.trainable && gradients.split === "whole")
      this.wholeGradients = new FlatBuffer(device, "gradients", this.whole, gradients.dtype);
    this.segments = layout.trainable ? this.#segments(plan, moments) : [];
  }

  #segments(plan: Plan, moments: readonly OptimizerPart[]): StateSegment[] {
    const { optimizer } = plan.residences;
    if (optimizer.split === "whole") return [this.#segment(plan, this.whole, "device", moments)];
    const border = this.own.start + plan.deviceStates(this.layout);
    const parts: [Range, Tier][] = [
      [{ start: this.own.start, end: border }, "device"],
      [{ start: border, end: this.own.end }, optimizer.tier],
    ];
    return parts
      .filter(([part]) => part.start < part.end)
      .map(([part, tier]) => this.#segment(plan, part, tier as MemoryTier, moments));
  }

  #segment(plan: Plan, range: Range, tier: MemoryTier, moments: readonly OptimizerPart[]): StateSegment {
    const queue = computeQueueOf[tier];
    const make = (label: MemoryLabel, dtype: DType): FlatBuffer =>
      new FlatBuffer(this.#device, label, range, dtype, queue);
    const isMaster = this.parameters.dtype === "f32" && this.parameters.tier === tier;
    return {
      ...range,
      tier,
      master: isMaster ? this.parameters : make("master", "f32"),
      moments: new Map(moments.map((part) => [part, make(part, "f32")])),
      gradients:
        this.wholeGradients && tier === "device"
          ? this.wholeGradients
          : make("gradients", plan.residences.gradients.dtype),
      settled: never,
    };
  }

  /** Whether gather has to make the parameters whole. */
  get needsGather(): boolean {
    const isWhole = this.parameters.end - this.parameters.start === this.layout.paddedElements;
    return !(isWhole && this.parameters.tier === "device") && !this.persistentCopy;
  }

  /** Memory in which all parameters are whole now, if there is any. */
  get usable(): FlatBuffer | undefined {
    return this.needsGather ? this.gathered : (this.persistentCopy ?? this.parameters);
  }

  /** The values of a tensor, where they are usable; ops issued from now on wait until they are complete. */
  value(name: string): Tensor | undefined {
    const buffer = this.usable;
    if (!buffer || (this.needsGather && !this.isOpen)) return undefined;
    if (this.#awaited !== this.ready) for (const event of this.ready) this.#device.wait("compute", event);
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
    const { parameters, wholeGradients, persistentCopy, gathered, produced, segments } = this;
    const held = segments.flatMap(({ master, moments, gradients }) => [master, gradients, ...moments.values()]);
    for (const buffer of new Set([parameters, wholeGradients, persistentCopy, gathered, produced, ...held]))
      buffer?.free();
  }
}

/** An event that has happened. */
const never: Event = { queue: "compute", sequence: 0 };

export function viewOf(device: Device, buffer: FlatBuffer, offset: number, shape: readonly number[]): Tensor {
  const bytes = (offset - buffer.start) * dtypeBytes[buffer.dtype];
  return Tensor.borrow(device, buffer.buffer, bytes, shape, buffer.dtype);
}

/** A flat buffer in a collective: `whole` holds all ranges, `own` at least the part of this rank's that takes part. */
export interface CollectivePart {
  readonly state: FlatState;
  readonly whole: FlatBuffer;
  readonly own: FlatBuffer;
  /** Elements of this rank's range that take part (of the others' ranges those at the same places). All if left out. */
  readonly part?: Range;
}

/** The core's limit on pieces of one call. */
const maxSegments = 64;

/** Pieces for collectives of at most `bucketElements` elements each (all ranges together), call by call. */
export function segmentCalls(parts: readonly CollectivePart[], bucketElements: number, worldSize: number): Segment[][] {
  const perRange = Math.max(1, Math.floor(bucketElements / worldSize));
  const calls: Segment[][] = [];
  let call: Segment[] = [];
  let room = perRange;
  for (const { state, whole, own, part = state.own } of parts) {
    const stride = state.layout.rangeElements;
    const end = part.end - state.own.start;
    for (let start = part.start - state.own.start; start < end; ) {
      if (room === 0 || call.length === maxSegments) {
        calls.push(call);
        call = [];
        room = perRange;
      }
      const count = Math.min(room, end - start);
      call.push({ whole: whole.at(0), stride, start, count, own: own.at(state.own.start + start) });
      start += count;
      room -= count;
    }
  }
  if (call.length > 0) calls.push(call);
  return calls;
}
