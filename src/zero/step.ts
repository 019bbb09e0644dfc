/**
 * The optimizer step and publish. The optimizer walks the elements it holds, unit by unit in the order of the next forward and
 * sub-group by sub-group, each cut at the borders of parameter groups; then fresh parameters go to where parameters live. The
 * next forward waits per unit, at gather.
 */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import type { OptimizerPart } from "../device/ledger.ts";
import { ParameterGroups } from "../optim/groups.ts";
import { createOptimizer, type Optimizer, type UpdateStep } from "../optim/optimizer.ts";
import { learningRateOf, momentumOf } from "../optim/schedules.ts";
import type { FlatLayout } from "../plan/layout.ts";
import type { Plan } from "../plan/plan.ts";
import { type CollectivePart, type FlatState, type Range, segmentCalls } from "./flat.ts";
import { type GroupRange, groupRanges, rangesWithin } from "./group-ranges.ts";
import type { UnitState } from "./unit.ts";

export class OptimizerStep {
  readonly #device: Device;
  readonly #group: ProcessGroup;
  readonly #plan: Plan;
  readonly #optimizer: Optimizer;
  readonly #groups: ParameterGroups;
  readonly #groupRanges: ReadonlyMap<FlatLayout, readonly GroupRange[]>;

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
    for (const unit of units) {
      for (const state of unit.trainable) this.#update(state, steps);
      this.#publish(unit);
    }
  }

  /** @param steps of each parameter group */
  #update(state: FlatState, steps: readonly UpdateStep[]): void {
    const { start, end } = state.updates;
    const subGroup = this.#plan.sizes.subGroup.elements;
    const ranges = this.#groupRanges.get(state.layout)!;
    for (let first = start; first < end; first += subGroup)
      for (const range of rangesWithin(ranges, first, Math.min(first + subGroup, end)))
        this.#updateRange(state, range, steps[range.group]!);
    state.ready = this.#device.mark("compute");
  }

  #updateRange(state: FlatState, { start, end }: Range, step: UpdateStep): void {
    const writesCopy = state.master !== state.parameters;
    const range = {
      count: end - start,
      master: state.master!.at(start),
      gradient: state.gradients!.at(start),
      gradientType: state.gradients!.dtype,
      parameter: writesCopy ? state.parameters.at(start) : null,
      parameterType: state.parameters.dtype,
      state: (part: OptimizerPart) => state.moments.get(part)!.at(start),
    };
    this.#optimizer.issue(this.#device, "compute", range, step);
  }

  /** Whole copies of parameters of which this rank updated its own range. */
  #publish(unit: UnitState): void {
    const parts = unit.trainable.flatMap((state): CollectivePart[] => {
      if (state.persistentCopy) return [{ state, whole: state.persistentCopy, own: state.parameters }];
      const updatedAll = state.updates.end - state.updates.start === state.layout.paddedElements;
      const wholeAtRest = !state.needsGather;
      return wholeAtRest && !updatedAll ? [{ state, whole: state.parameters, own: state.parameters }] : [];
    });
    if (parts.length === 0) return;
    this.#device.wait("collective", this.#device.mark("compute"));
    const dtype = this.#plan.residences.parameters.dtype;
    for (const segments of segmentCalls(parts, this.#plan.sizes.allgatherBucket.elements, this.#group.worldSize))
      this.#group.allGather(segments, dtype, `the updated parameters of unit ${unit.name}`);
    for (const { state } of parts) state.ready = this.#device.mark("collective");
  }
}
