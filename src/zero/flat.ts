/** A unit's flat buffer as a rank holds it: which parts are whole and which are shards, and in which tier, follows from the plan. */
import type { Device } from "../device/device.ts";
import { dtypeBytes } from "../device/dtype.ts";
import type { Tier } from "../device/ledger.ts";
import type { Segment } from "../device/ops.ts";
import { computeQueueOf, type Event } from "../device/queue.ts";
import type { FlatLayout } from "../plan/layout.ts";
import type { Plan } from "../plan/plan.ts";
import { Tensor } from "../tensor/tensor.ts";
import { cutRange, type Elements, FlatBuffer, type Range } from "./elements.ts";
import type { RestingParameters } from "./parameters.ts";
import { StateSegment } from "./segment.ts";
import type { StateStores } from "./stores.ts";

/** Everything of one flat buffer that a rank holds. Which fields are whole and which are shards follows from the residences. */
export class FlatState {
  readonly layout: FlatLayout;
  /** This rank's range of the flat buffer. */
  readonly own: Range;
  readonly whole: Range;
  /** Parameters at rest. */
  readonly parameters: RestingParameters;
  /** What this rank updates, in order; none where the parameters are frozen. */
  readonly segments: readonly StateSegment[];
  /** Gradients of all ranks' ranges, where these are kept between micro-batches. */
  readonly wholeGradients: FlatBuffer | undefined;
  /** Whole copy of persistent sharded parameters. */
  readonly persistentCopy: FlatBuffer | undefined;

  /** Whole parameters made by gather. */
  gathered: FlatBuffer | undefined;
  /** The persistent copy is older than what it is a copy of: the next gather renews it. */
  isStale = false;
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

  constructor(layout: FlatLayout, parts: FlatParts) {
    const { device, plan, rank, stores } = parts;
    const { gradients, parameters } = plan.residences;
    this.#device = device;
    this.layout = layout;
    this.own = { start: rank * layout.rangeElements, end: (rank + 1) * layout.rangeElements };
    this.whole = { start: 0, end: layout.paddedElements };
    const pieces = this.#ranges(plan).flatMap(([range]) => cutRange(range, plan.sizes.subGroup.elements));
    const range = parameters.split === "whole" ? this.whole : this.own;
    const updated = layout.trainable ? this.#ranges(plan) : [];
    this.parameters = stores.parameters(plan.parameterTier(layout), range, pieces, updated[0]?.[0]);
    if (parameters.split === "shard" && layout.persistent)
      this.persistentCopy = new FlatBuffer(device, "gathered", this.whole, parameters.dtype);
    if (layout.trainable && gradients.split === "whole")
      this.wholeGradients = new FlatBuffer(device, "gradients", this.whole, gradients.dtype);
    this.segments = updated.map(([part, tier]) => this.#segment(plan, part, tier, stores));
  }

  /** What this rank updates, by the tier in which the states live. */
  #ranges(plan: Plan): [Range, Tier][] {
    const { optimizer } = plan.residences;
    if (optimizer.split === "whole") return [[this.whole, "device"]];
    const border = this.own.start + plan.deviceStates(this.layout);
    const parts: [Range, Tier][] = [
      [{ start: this.own.start, end: border }, "device"],
      [{ start: border, end: this.own.end }, optimizer.tier],
    ];
    return parts.filter(([part]) => part.start < part.end);
  }

  #segment(plan: Plan, range: Range, tier: Tier, stores: StateStores): StateSegment {
    const computeTier = tier === "disk" ? "host" : tier;
    const whole = computeTier === "device" ? this.wholeGradients : undefined;
    const { dtype } = plan.residences.gradients;
    const make = (): FlatBuffer => new FlatBuffer(this.#device, "gradients", range, dtype, computeQueueOf[computeTier]);
    const gradients = whole ? [whole] : plan.config.delayedUpdateFrom === undefined ? [make()] : [make(), make()];
    return new StateSegment(range, computeTier, stores.states(tier, range, this.parameters), gradients);
  }

  /** Whether gather has to make the parameters whole. */
  get needsGather(): boolean {
    return !this.#wholeAtRest && !this.persistentCopy;
  }

  /** Memory in which all parameters are whole now, if there is any. */
  get usable(): FlatBuffer | undefined {
    if (this.isStale) return undefined;
    return this.persistentCopy ?? this.#wholeAtRest ?? this.gathered;
  }

  get #wholeAtRest(): FlatBuffer | undefined {
    const { buffer, tier, start, end } = this.parameters;
    return tier === "device" && end - start === this.layout.paddedElements ? buffer : undefined;
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

  /** Frees what it holds apart from the stores' own. */
  dispose(): void {
    const { parameters, wholeGradients, persistentCopy, gathered, produced, segments } = this;
    const gradients = new Set([wholeGradients, ...segments.flatMap((s) => s.gradientBuffers)]);
    for (const buffer of [persistentCopy, gathered, gradients.has(produced) ? undefined : produced, ...gradients])
      buffer?.free();
    for (const { states } of segments) states.dispose();
    parameters.dispose();
  }
}

/** What flat buffers are made with. */
export interface FlatParts {
  readonly device: Device;
  readonly plan: Plan;
  readonly rank: number;
  readonly stores: StateStores;
}

export function viewOf(device: Device, buffer: FlatBuffer, offset: number, shape: readonly number[]): Tensor {
  const bytes = (offset - buffer.start) * dtypeBytes[buffer.dtype];
  return Tensor.borrow(device, buffer.buffer, bytes, shape, buffer.dtype);
}

/** A flat buffer in a collective: `whole` holds all ranges, `own` at least the part of this rank's that takes part. */
export interface CollectivePart {
  readonly state: FlatState;
  readonly whole: FlatBuffer;
  readonly own: Elements;
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
