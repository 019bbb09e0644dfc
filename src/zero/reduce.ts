/**
 * Settling: a produced gradient goes to where gradients live. Where they are whole, they are produced in place and meet the
 * other ranks once, at the end of the last micro-batch; where they are sharded, each unit's bucket is reduce-scattered as
 * soon as its backward pass is over, and goes away. Small units wait for each other up to the reduce bucket's size.
 */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import type { QueueName } from "../device/queue.ts";
import { InternalError } from "../errors/errors.ts";
import type { Parameter } from "../nn/parameter.ts";
import { gapsOf } from "../plan/layout.ts";
import type { Plan } from "../plan/plan.ts";
import { elementDType } from "../plan/residence.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { FlatBuffer, type Range } from "./elements.ts";
import { type CollectivePart, type FlatState, segmentCalls, viewOf } from "./flat.ts";
import type { StateSegment } from "./segment.ts";
import type { UnitState } from "./unit.ts";

export class GradientSettler {
  readonly #device: Device;
  readonly #group: ProcessGroup;
  readonly #plan: Plan;
  #microBatch = 0;
  #waiting: Outgoing[] = [];
  #waitingWords: string[] = [];
  #settled: UnitState[] = [];
  /** Buckets that are in use but, with overlap, still held so that the next ones are other memory, and the queue that uses them. */
  #inFlight: InUse[] = [];

  constructor(device: Device, group: ProcessGroup, plan: Plan) {
    this.#device = device;
    this.#group = group;
    this.#plan = plan;
  }

  /** @param microBatch 0 to gradientAccumulation - 1 */
  beginMicroBatch(microBatch: number): void {
    this.#microBatch = microBatch;
    this.#settled = [];
  }

  /** Units in the order in which this micro-batch finished them. */
  get settled(): readonly UnitState[] {
    return this.#settled;
  }

  /** Where an op puts the gradient of `parameter` now; the first op of a micro-batch overwrites, others add. */
  takeGradient(state: FlatState, parameter: Parameter): { tensor: Tensor; accumulate: boolean } {
    const piece = state.layout.pieces.find((p) => p.name === parameter.name);
    if (!piece || state.segments.length === 0) throw new InternalError(`${parameter.name} has no gradient`);
    if (!state.produced) this.#produce(state);
    const produced = state.produced!;
    const accumulate = state.written.has(piece.name) || (produced === state.wholeGradients && this.#microBatch > 0);
    state.written.add(piece.name);
    return { tensor: viewOf(this.#device, produced, piece.offset, piece.shape), accumulate };
  }

  /** The unit's backward pass is over (or it had none): its gradients are final for this micro-batch. */
  settle(unit: UnitState): void {
    if (unit.isSettled) return;
    unit.isSettled = true;
    this.#settled.push(unit);
    const states = unit.trainable;
    const elements = states.reduce((sum, s) => sum + s.layout.paddedElements, 0);
    const waiting = this.#waiting.reduce((sum, p) => sum + p.state.layout.paddedElements, 0);
    if (waiting + elements > this.#plan.sizes.reduceBucket.elements) this.flush();
    for (const state of states) this.#settleFlat(state);
    if (states.length > 0) this.#waitingWords.push(unit.name);
    if (waiting + elements >= this.#plan.sizes.reduceBucket.elements) this.flush();
  }

  /** Sends what waits. */
  flush(): void {
    const parts = this.#waiting;
    const names = this.#waitingWords.join(", ");
    const words = `the gradients of unit ${names}`;
    this.#waiting = [];
    this.#waitingWords = [];
    if (parts.length > 0) this.#device.timeline.within(names, () => this.#reduce(parts, words));
  }

  /** All reductions are issued: no bucket is needed any more. */
  endMicroBatch(): void {
    this.flush();
    this.#freeInFlight();
  }

  #produce(state: FlatState): void {
    const dtype = this.#plan.residences.parameters.dtype;
    const rest = state.wholeGradients;
    state.produced = rest?.dtype === dtype ? rest : new FlatBuffer(this.#device, "buckets", state.whole, dtype);
  }

  #settleFlat(state: FlatState): void {
    if (!state.produced) this.#produce(state);
    const produced = state.produced!;
    this.#zeroUnwritten(state, produced);
    state.produced = undefined;
    state.written.clear();
    const rest = state.wholeGradients;
    if (rest && produced !== rest) this.#join(state, produced, rest);
    const last = this.#microBatch === this.#plan.config.gradientAccumulation - 1;
    if (!rest || last) this.#waiting.push({ state, sent: this.#outgoing(state, rest ?? produced) });
  }

  /** Whole gradients as they are sent: as they are, or in a bucket of another type, or divided beforehand. */
  #outgoing(state: FlatState, from: FlatBuffer): FlatBuffer {
    const { type, divideBefore } = this.#plan.config.gradientReduction;
    const dtype = type === undefined ? from.dtype : elementDType[type];
    if (dtype === from.dtype && divideBefore === 1) return from;
    const sent = new FlatBuffer(this.#device, "buckets", state.whole, dtype);
    this.#device.issue("compute", "accumulate", {
      count: state.layout.paddedElements,
      srcType: from.dtype,
      dstType: dtype,
      src: from.at(0),
      dst: sent.at(0),
      factor: 1 / divideBefore,
      accumulate: false,
    });
    if (from !== state.wholeGradients) from.free();
    return sent;
  }

  /** Padding, and tensors that no op produced: zero, or in place what earlier micro-batches left. */
  #zeroUnwritten(state: FlatState, produced: FlatBuffer): void {
    if (produced === state.wholeGradients && this.#microBatch > 0) return;
    for (const piece of state.layout.pieces)
      if (!state.written.has(piece.name)) produced.zero(piece.offset, piece.elements);
    for (const gap of gapsOf(state.layout)) produced.zero(gap.offset, gap.count);
  }

  /** Adds a bucket to whole gradients of another type. */
  #join(state: FlatState, bucket: FlatBuffer, rest: FlatBuffer): void {
    this.#device.issue("compute", "accumulate", {
      count: state.layout.paddedElements,
      srcType: bucket.dtype,
      dstType: rest.dtype,
      src: bucket.at(0),
      dst: rest.at(0),
      factor: 1,
      accumulate: this.#microBatch > 0,
    });
    bucket.free();
  }

  #reduce(outgoing: readonly Outgoing[], words: string): void {
    const device = this.#device;
    this.#freeInFlight(); // before anything is issued: who takes that memory need not wait for it
    device.wait("collective", device.mark("compute"));
    const targets = outgoing.flatMap(({ state, sent }) => state.segments.map((s) => this.#targetOf(state, s, sent)));
    const [resting, landing] = [targets.filter((t) => t.rests), targets.filter((t) => !t.rests)];
    const addsUp = this.#plan.residences.gradients.split === "shard" && this.#microBatch > 0;
    this.#reduceInto(resting, addsUp, words);
    this.#reduceInto(landing, false, words);
    if (this.#plan.residences.optimizer.split === "whole") this.#spread(resting, words);
    const used: InUse[] = outgoing.flatMap(({ state, sent }) =>
      sent === state.wholeGradients ? [] : [[sent, "collective"]],
    );
    for (const target of targets) {
      target.segment.settled = device.mark("collective");
      if (target.own !== target.segment.gradients) used.push(...this.#takeDown(target, addsUp));
    }
    this.#inFlight = used;
    if (this.#plan.config.overlapComm) return;
    device.wait("compute", device.mark("collective"));
    this.#freeInFlight();
  }

  /** Where the reduced gradients of a segment go on the device: where they rest, or into a bucket on their way to another tier. */
  #targetOf(state: FlatState, segment: StateSegment, whole: FlatBuffer): Target {
    const part = { start: Math.max(segment.start, state.own.start), end: Math.min(segment.end, state.own.end) };
    const { gradients, computeTier } = segment;
    const rest = state.wholeGradients ?? (computeTier === "device" ? gradients : undefined);
    const own = rest ?? new FlatBuffer(this.#device, "buckets", part, gradients.dtype, "collective");
    return { state, segment, whole, own, part, rests: rest !== undefined };
  }

  #reduceInto(targets: readonly Target[], accumulate: boolean, words: string): void {
    if (targets.length === 0) return;
    const { config, sizes, worldSize } = this.#plan;
    const { divideBefore, operation } = config.gradientReduction;
    const addends = operation === "sum" ? 1 : worldSize;
    const options = {
      srcType: targets[0]!.whole.dtype,
      dstType: targets[0]!.own.dtype,
      factor: divideBefore / (addends * config.gradientAccumulation),
      accumulate,
    };
    for (const segments of segmentCalls(targets, sizes.reduceBucket.elements, worldSize))
      this.#group.reduceScatter(segments, options, words);
  }

  /** Where every rank updates everything, all ranks need all reduced gradients. */
  #spread(targets: readonly Target[], words: string): void {
    const { sizes, worldSize, residences } = this.#plan;
    const parts = targets.map((t) => ({ ...t, whole: t.own }));
    for (const segments of segmentCalls(parts, sizes.reduceBucket.elements, worldSize))
      this.#group.allGather(segments, residences.gradients.dtype, words);
  }

  /** Reduced gradients cross to the host, where those of several micro-batches are added. @returns what is in use until then */
  #takeDown({ segment, own, part, rests }: Target, addsUp: boolean): InUse[] {
    const device = this.#device;
    const { gradients } = segment;
    const count = part.end - part.start;
    const to = addsUp ? new FlatBuffer(device, "staging", part, gradients.dtype, "down", "host") : gradients;
    device.wait("down", segment.settled);
    if (!addsUp) device.wait("down", segment.overwritable);
    segment.settled = device.cross("down", own.at(part.start), to.at(part.start), count, gradients.dtype);
    const used: InUse[] = rests ? [] : [[own, "down"]];
    if (!addsUp) return used;
    device.wait("update", segment.settled);
    segment.settled = device.issue("update", "accumulate", {
      count,
      srcType: to.dtype,
      dstType: gradients.dtype,
      src: to.at(part.start),
      dst: gradients.at(part.start),
      factor: 1,
      accumulate: true,
    });
    return [...used, [to, "update"]];
  }

  #freeInFlight(): void {
    for (const [buffer, queue] of this.#inFlight) buffer.free(queue);
    this.#inFlight = [];
  }
}

/** A buffer and the queue that uses it last. */
type InUse = readonly [FlatBuffer, QueueName];

/** Whole gradients that wait to be reduced. */
interface Outgoing {
  readonly state: FlatState;
  readonly sent: FlatBuffer;
}

/** A reduction to one segment of this rank's states. */
interface Target extends CollectivePart {
  readonly segment: StateSegment;
  readonly part: Range;
  readonly own: FlatBuffer;
  /** Whether `own` is where gradients rest on the device. */
  readonly rests: boolean;
}
