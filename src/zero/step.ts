/**
 * The optimizer step and publish. The optimizer walks the elements it holds, unit by unit in the order of the next forward and
 * sub-group by sub-group, each cut at the borders of parameter groups; then fresh parameters go to where parameters live. The
 * next forward waits per unit, at gather.
 */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import type { DType } from "../device/dtype.ts";
import type { OptimizerPart } from "../device/ledger.ts";
import type { Event, QueueName } from "../device/queue.ts";
import { ParameterGroups } from "../optim/groups.ts";
import { createOptimizer, type Optimizer, type UpdateStep } from "../optim/optimizer.ts";
import { learningRateOf, momentumOf } from "../optim/schedules.ts";
import type { FlatLayout } from "../plan/layout.ts";
import type { Plan } from "../plan/plan.ts";
import { fetchOwn } from "./fetch.ts";
import {
  type CollectivePart,
  FlatBuffer,
  type FlatState,
  type Range,
  type StateSegment,
  segmentCalls,
} from "./flat.ts";
import { type GroupRange, groupRanges, rangesWithin } from "./group-ranges.ts";
import type { UnitState } from "./unit.ts";

export class OptimizerStep {
  readonly #device: Device;
  readonly #group: ProcessGroup;
  readonly #plan: Plan;
  readonly #optimizer: Optimizer;
  readonly #groups: ParameterGroups;
  readonly #groupRanges: ReadonlyMap<FlatLayout, readonly GroupRange[]>;
  #inFlight: { readonly staging: FlatBuffer; readonly queue: QueueName } | undefined;

  /** @throws UsageError for a parameter group that has no parameter */
  constructor(device: Device, group: ProcessGroup, plan: Plan) {
    this.#device = device;
    this.#group = group;
    this.#plan = plan;
    this.#optimizer = createOptimizer(plan.config.optimizer);
    const flats = plan.units.flatMap((u) => u.flats);
    const parameters = flats.flatMap(({ pieces, trainable }) => pieces.map(({ name }) => ({ name, trainable })));
    this.#groups = new ParameterGroups(plan.config.optimizer, plan.config.parameterGroups, parameters);
    this.#groupRanges = new Map(flats.map((flat) => [flat, groupRanges(flat, (name) => this.#groups.of(name))]));
  }

  /** The learning rate of an update (from 1) for parameters that belong to no group. */
  learningRateAt(update: number): number {
    const { schedule, optimizer } = this.#plan.config;
    return learningRateOf(schedule, optimizer.learningRate, update);
  }

  /** @param update number of the update, from 1 @param gradientScale clipping and the inverse loss scale in one */
  run(units: readonly UnitState[], update: number, gradientScale: number): void {
    const { schedule } = this.#plan.config;
    const momentum = momentumOf(schedule, update);
    const steps = this.#groups.numbers.map(({ learningRate, weightDecay }) => {
      const scheduled = learningRateOf(schedule, learningRate, update);
      return { update, gradientScale, learningRate: scheduled, weightDecay, momentum };
    });
    // What crosses to the device overwrites parameters that the passes before may still read.
    this.#device.wait("up", this.#device.mark("compute"));
    this.#device.wait("up", this.#device.mark("collective"));
    for (const unit of units) {
      for (const state of unit.trainable) this.#update(state, steps);
      this.#publish(unit);
    }
    this.#freeInFlight();
  }

  /** @param steps of each parameter group */
  #update(state: FlatState, steps: readonly UpdateStep[]): void {
    const subGroup = this.#plan.sizes.subGroup.elements;
    state.ready = state.segments.flatMap((segment) => {
      let ready: readonly Event[] = [];
      for (let first = segment.start; first < segment.end; first += subGroup)
        ready = this.#updateSubGroup(state, segment, first, Math.min(first + subGroup, segment.end), steps);
      return ready;
    });
  }

  /** Updates elements [start, end) where their states live. @returns when their parameters are fresh where they rest */
  #updateSubGroup(
    state: FlatState,
    segment: StateSegment,
    start: number,
    end: number,
    steps: readonly UpdateStep[],
  ): readonly Event[] {
    const device = this.#device;
    const { parameters } = state;
    const { master } = segment;
    const queue = master.queue;
    const crosses = parameters.tier !== segment.tier;
    const copy =
      master.dtype === parameters.dtype
        ? master
        : crosses
          ? this.#staging({ start, end }, parameters.dtype, queue)
          : parameters;
    for (const range of rangesWithin(this.#groupRanges.get(state.layout)!, start, end))
      this.#updateRange(segment, copy === master ? undefined : copy, range, steps[range.group]!);
    const updated = device.mark(queue);
    if (!crosses) return [updated];
    const crossing = parameters.tier === "device" ? "up" : "down";
    device.wait(crossing, updated);
    const crossed = device.cross(crossing, copy.at(start), parameters.at(start), end - start, parameters.dtype);
    if (copy !== master) this.#letGo(copy, crossing);
    return [crossed];
  }

  #updateRange(segment: StateSegment, copy: FlatBuffer | undefined, { start, end }: Range, step: UpdateStep): void {
    const { master, gradients, moments } = segment;
    const range = {
      count: end - start,
      master: master.at(start),
      gradient: gradients.at(start),
      gradientType: gradients.dtype,
      parameter: copy ? copy.at(start) : null,
      parameterType: copy?.dtype ?? master.dtype,
      state: (part: OptimizerPart) => moments.get(part)!.at(start),
    };
    this.#optimizer.issue(this.#device, master.queue, range, step);
  }

  /** Fresh parameters on their way to another tier. */
  #staging(range: Range, dtype: DType, queue: QueueName): FlatBuffer {
    return new FlatBuffer(this.#device, "staging", range, dtype, queue);
  }

  /** The next piece is written to other memory while this one crosses. */
  #letGo(staging: FlatBuffer, queue: QueueName): void {
    this.#freeInFlight();
    this.#inFlight = { staging, queue };
  }

  #freeInFlight(): void {
    if (this.#inFlight) this.#inFlight.staging.free(this.#inFlight.queue);
    this.#inFlight = undefined;
  }

  /** Whole copies of parameters of which this rank updated its own range. */
  #publish(unit: UnitState): void {
    const device = this.#device;
    const parts = unit.trainable.flatMap((state): CollectivePart[] => {
      const { persistentCopy, parameters } = state;
      if (persistentCopy) return [{ state, whole: persistentCopy, own: fetchOwn(device, state, persistentCopy) }];
      const updatedAll = state.segments.every((s) => s.start === 0 && s.end === state.layout.paddedElements);
      if (state.needsGather || updatedAll) return [];
      for (const event of state.ready) device.wait("collective", event);
      return [{ state, whole: parameters, own: parameters }];
    });
    if (parts.length === 0) return;
    const dtype = this.#plan.residences.parameters.dtype;
    for (const segments of segmentCalls(parts, this.#plan.sizes.allgatherBucket.elements, this.#group.worldSize))
      this.#group.allGather(segments, dtype, `the updated parameters of unit ${unit.name}`);
    for (const { state } of parts) state.ready = [device.mark("collective")];
  }
}
