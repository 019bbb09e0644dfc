/**
 * Settling: a produced gradient goes to where gradients live. Where they are whole, they are produced in place and meet the
 * other ranks once, at the end of the last micro-batch; where they are sharded, each unit's bucket is reduce-scattered as
 * soon as its backward pass is over, and goes away. Small units wait for each other up to the reduce bucket's size.
 */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import type { Segment } from "../device/ops.ts";
import { InternalError } from "../errors/errors.ts";
import type { Parameter } from "../nn/parameter.ts";
import { gapsOf } from "../plan/layout.ts";
import type { Plan } from "../plan/plan.ts";
import { elementDType } from "../plan/residence.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { type CollectivePart, FlatBuffer, type FlatState, segmentCalls, viewOf } from "./flat.ts";
import type { UnitState } from "./unit.ts";

export class GradientSettler {
  readonly #device: Device;
  readonly #group: ProcessGroup;
  readonly #plan: Plan;
  #microBatch = 0;
  #waiting: CollectivePart[] = [];
  #waitingWords: string[] = [];
  #settled: UnitState[] = [];
  /** Buckets whose reduction is issued but, with overlap, still held so that the next ones are other memory. */
  #inFlight: FlatBuffer[] = [];

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
    if (!piece || !state.gradients) throw new InternalError(`${parameter.name} has no gradient`);
    if (!state.produced) this.#produce(state);
    const produced = state.produced!;
    const accumulate = state.written.has(piece.name) || (produced === state.gradients && this.#microBatch > 0);
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
    const words = `the gradients of unit ${this.#waitingWords.join(", ")}`;
    this.#waiting = [];
    this.#waitingWords = [];
    if (parts.length > 0) this.#reduce(parts, words);
  }

  /** All reductions are issued: no bucket is needed any more. */
  endMicroBatch(): void {
    this.flush();
    this.#freeInFlight();
  }

  #produce(state: FlatState): void {
    const rest = state.gradients!;
    const dtype = this.#plan.residences.parameters.dtype;
    const inPlace = this.#plan.residences.gradients.split === "whole" && rest.dtype === dtype;
    state.produced = inPlace ? rest : new FlatBuffer(this.#device, "buckets", state.whole, dtype);
  }

  #settleFlat(state: FlatState): void {
    if (!state.produced) this.#produce(state);
    const produced = state.produced!;
    this.#zeroUnwritten(state, produced);
    state.produced = undefined;
    state.written.clear();
    const rest = state.gradients!;
    if (this.#plan.residences.gradients.split === "whole") {
      if (produced !== rest) this.#join(state, produced, rest);
      const last = this.#microBatch === this.#plan.config.gradientAccumulation - 1;
      if (last) this.#waiting.push({ state, whole: this.#outgoing(state, rest), own: rest });
    } else this.#waiting.push({ state, whole: this.#outgoing(state, produced), own: rest });
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
    if (from !== state.gradients) from.free();
    return sent;
  }

  /** Padding, and tensors that no op produced: zero, or in place what earlier micro-batches left. */
  #zeroUnwritten(state: FlatState, produced: FlatBuffer): void {
    if (produced === state.gradients && this.#microBatch > 0) return;
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

  #reduce(parts: readonly CollectivePart[], words: string): void {
    const { config, residences, sizes, worldSize } = this.#plan;
    const addends = config.gradientReduction.operation === "sum" ? 1 : worldSize;
    this.#device.wait("collective", this.#device.mark("compute"));
    const options = {
      srcType: parts[0]!.whole.dtype,
      dstType: parts[0]!.own.dtype,
      factor: config.gradientReduction.divideBefore / (addends * config.gradientAccumulation),
      accumulate: residences.gradients.split === "shard" && this.#microBatch > 0,
    };
    const callsOf = (sent: readonly CollectivePart[]): Segment[][] =>
      segmentCalls(sent, sizes.reduceBucket.elements, worldSize);
    for (const segments of callsOf(parts)) this.#group.reduceScatter(segments, options, words);
    if (residences.optimizer.split === "whole")
      for (const segments of callsOf(parts.map((p) => ({ ...p, whole: p.own }))))
        this.#group.allGather(segments, options.dstType, words);
    for (const { state } of parts) state.settled = this.#device.mark("collective");
    this.#freeInFlight();
    this.#inFlight = parts.filter((p) => p.whole !== p.own).map((p) => p.whole);
    if (config.overlapComm) return;
    this.#device.wait("compute", this.#device.mark("collective"));
    this.#freeInFlight();
  }

  #freeInFlight(): void {
    for (const bucket of this.#inFlight) bucket.free("collective");
    this.#inFlight = [];
  }
}
