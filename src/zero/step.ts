/**
 * The optimizer step and publish. The optimizer walks the elements it holds, unit by unit in the order of the next forward and
 * sub-group by sub-group, each cut at the borders of parameter groups; then fresh parameters go to where parameters live. The
 * next forward waits per unit, at gather.
 */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import type { OptimizerPart } from "../device/ledger.ts";
import { computeQueueOf, type Event } from "../device/queue.ts";
import { ParameterGroups } from "../optim/groups.ts";
import { createOptimizer, type Optimizer, type UpdateStep } from "../optim/optimizer.ts";
import { learningRateOf, momentumOf } from "../optim/schedules.ts";
import type { FlatLayout } from "../plan/layout.ts";
import type { Plan } from "../plan/plan.ts";
import type { Elements, Range } from "./elements.ts";
import { type CollectivePart, type FlatState, segmentCalls } from "./flat.ts";
import { type GroupRange, groupRanges, rangesWithin } from "./group-ranges.ts";
import type { CrossingBuffer } from "./parameters.ts";
import type { StatesInMemory } from "./segment.ts";
import type { UnitState } from "./unit.ts";

/** What is particular to one update. */
export interface UpdateNumbers {
  /** Its number, from 1. */
  readonly update: number;
  /** Clipping and the inverse loss scale in one. */
  readonly gradientScale: number;
}

export class OptimizerStep {
  readonly #device: Device;
  readonly #group: ProcessGroup;
  readonly #plan: Plan;
  readonly #optimizer: Optimizer;
  readonly #groups: ParameterGroups;
  readonly #groupRanges: ReadonlyMap<FlatLayout, readonly GroupRange[]>;
  readonly #crossing: CrossingBuffer;

  /** @throws UsageError for a parameter group that has no parameter */
  constructor(device: Device, group: ProcessGroup, plan: Plan, crossing: CrossingBuffer) {
    this.#crossing = crossing;
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

  /**
   * A step is over. Where updates are delayed, parameters of the update before take their places and this step's update begins;
   * otherwise this step's update begins and its parameters take their places.
   * @param update undefined where the step is skipped
   * @param passed what a unit's change waits for, if anything
   */
  async run(
    units: readonly UnitState[],
    attempted: number,
    update: UpdateNumbers | undefined,
    passed: (unit: UnitState) => Promise<unknown> | undefined,
  ): Promise<void> {
    const each = async (body: (unit: UnitState) => void): Promise<void> => {
      for (const unit of units) {
        const wait = passed(unit);
        if (wait) await wait;
        this.#device.timeline.within(unit.name, () => body(unit));
      }
    };
    const { delayedUpdateFrom } = this.#plan.config;
    const isDelayed = delayedUpdateFrom !== undefined && attempted >= delayedUpdateFrom;
    const steps = update && this.#stepsOf(update);
    // What crosses to the device overwrites parameters that the passes before may still read. (A queue is made when it is first
    // named, so jobs without offload do not name it.)
    if (this.#plan.residences.optimizer.tier !== "device")
      for (const queue of ["compute", "collective"] as const) this.#device.wait("up", this.#device.mark(queue));
    if (isDelayed) await each((unit) => this.#deliver(unit));
    if (steps)
      await each((unit) => {
        for (const state of unit.trainable) this.#update(state, steps);
        if (delayedUpdateFrom === undefined) this.#publish(unit);
        else if (!isDelayed) this.#deliver(unit);
      });
    this.#crossing.flush();
  }

  /** The numbers of this update for each parameter group. */
  #stepsOf({ update, gradientScale }: UpdateNumbers): UpdateStep[] {
    const { schedule } = this.#plan.config;
    const momentum = momentumOf(schedule, update);
    return this.#groups.numbers.map(({ learningRate, weightDecay }) => {
      const scheduled = learningRateOf(schedule, learningRate, update);
      return { update, gradientScale, learningRate: scheduled, weightDecay, momentum };
    });
  }

  /** @param steps of each parameter group */
  #update(state: FlatState, steps: readonly UpdateStep[]): void {
    const groups = this.#groupRanges.get(state.layout)!;
    const ready = state.segments.flatMap((segment) => {
      const { states, gradients } = segment;
      let last: readonly Event[] = [];
      for (const subGroup of states.subGroups)
        states.update(subGroup, (memory) => {
          last = state.parameters.refresh(subGroup, memory.part("master"), (copy) => {
            for (const range of rangesWithin(groups, subGroup.start, subGroup.end))
              this.#updateRange(memory, gradients, copy, range, steps[range.group]!);
          });
          return last;
        });
      segment.giveToUpdate(this.#device.mark(computeQueueOf[segment.computeTier]));
      return last;
    });
    if (ready.length > 0) state.ready = ready;
  }

  /** What an update made earlier becomes what passes see. */
  #deliver(unit: UnitState): void {
    for (const state of unit.trainable)
      state.ready = state.segments.flatMap(({ states }) =>
        states.subGroups.flatMap((subGroup) => state.parameters.deliver?.(subGroup) ?? []),
      );
    this.#publish(unit);
  }

  #updateRange(
    states: StatesInMemory,
    gradients: Elements,
    copy: Elements | undefined,
    { start, end }: Range,
    step: UpdateStep,
  ): void {
    const master = states.part("master");
    const range = {
      count: end - start,
      master: master.at(start),
      gradient: gradients.at(start),
      gradientType: gradients.dtype,
      parameter: copy ? copy.at(start) : null,
      parameterType: copy?.dtype ?? master.dtype,
      state: (part: OptimizerPart) => states.part(part).at(start),
    };
    this.#optimizer.issue(this.#device, master.queue, range, step);
  }

  /** Whole copies of parameters of which this rank updated its own range. */
  #publish(unit: UnitState): void {
    const parts = unit.trainable.flatMap((state): CollectivePart[] => {
      if (state.persistentCopy) {
        state.isStale = true; // renewed where the next pass gathers: all of them now would hold its first gather up
        return [];
      }
      const updatedAll = state.segments.every((s) => s.start === 0 && s.end === state.layout.paddedElements);
      const whole = state.usable;
      if (state.needsGather || updatedAll || !whole) return [];
      for (const event of state.ready) this.#device.wait("collective", event);
      return [{ state, whole, own: whole }];
    });
    if (parts.length === 0) return;
    const dtype = this.#plan.residences.parameters.dtype;
    for (const segments of segmentCalls(parts, this.#plan.sizes.allgatherBucket.elements, this.#group.worldSize))
      this.#group.allGather(segments, dtype, `the updated parameters of unit ${unit.name}`);
    for (const { state } of parts) state.ready = [this.#device.mark("collective")];
  }
}
