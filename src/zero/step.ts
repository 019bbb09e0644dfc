/**
 * The optimizer step and publish. The optimizer walks the elements it holds, unit by unit in the order of the next forward
 * and sub-group by sub-group; then fresh parameters go to where parameters live. The next forward waits per unit, at gather.
 */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import { createOptimizer, type Optimizer, type UpdateStep } from "../optim/optimizer.ts";
import { learningRateOf } from "../optim/schedules.ts";
import type { Plan } from "../plan/plan.ts";
import { type CollectivePart, type FlatState, segmentCalls } from "./flat.ts";
import type { UnitState } from "./unit.ts";

export class OptimizerStep {
  readonly #device: Device;
  readonly #group: ProcessGroup;
  readonly #plan: Plan;
  readonly #optimizer: Optimizer;

  constructor(device: Device, group: ProcessGroup, plan: Plan) {
    this.#device = device;
    this.#group = group;
    this.#plan = plan;
    this.#optimizer = createOptimizer(plan.config.optimizer);
  }

  /** The learning rate of an update (from 1) for parameters that belong to no group. */
  learningRateAt(update: number): number {
    const { schedule, optimizer } = this.#plan.config;
    return learningRateOf(schedule, optimizer.learningRate, update);
  }

  /** @param update number of the update, from 1 @param gradientScale clipping and the inverse loss scale in one */
  run(units: readonly UnitState[], update: number, gradientScale: number): void {
    const step = { update, gradientScale, learningRate: this.learningRateAt(update) };
    for (const unit of units) {
      for (const state of unit.trainable) this.#update(state, step);
      this.#publish(unit);
    }
  }

  #update(state: FlatState, step: UpdateStep): void {
    const { start, end } = state.updates;
    const subGroup = this.#plan.sizes.subGroup.elements;
    const writesCopy = state.master !== state.parameters;
    for (let first = start; first < end; first += subGroup)
      this.#updateRange(state, first, Math.min(subGroup, end - first), writesCopy, step);
    state.ready = this.#device.mark("compute");
  }

  #updateRange(state: FlatState, first: number, count: number, writesCopy: boolean, step: UpdateStep): void {
    const range = {
      count,
      master: state.master!.at(first),
      firstMoment: state.moments.get("firstMoment")!.at(first),
      secondMoment: state.moments.get("secondMoment")!.at(first),
      gradient: state.gradients!.at(first),
      gradientType: state.gradients!.dtype,
      parameter: writesCopy ? state.parameters.at(first) : null,
      parameterType: state.parameters.dtype,
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
