/**
 * Units at run time: gather makes a unit's parameters whole just before they are used, release lets them go right after
 * (ZeRO stage 3), and where the residence table says they are whole at rest both do nothing.
 *
 * Everything is decided in program order. A unit that was used is released when the next unit is entered, so one that is used
 * twice in a row (the head: last of the forward pass, first of the backward) is gathered once. What comes next is learned
 * from the micro-batch before, and gathered ahead within the plan's look-ahead.
 */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import { dtypeBytes } from "../device/dtype.ts";
import type { Event } from "../device/queue.ts";
import { InternalError } from "../errors/errors.ts";
import type { DescribedModel } from "../nn/describe.ts";
import type { Parameter } from "../nn/parameter.ts";
import type { UnitLayout } from "../plan/layout.ts";
import type { Plan } from "../plan/plan.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { FlatBuffer } from "./elements.ts";
import { type FlatParts, FlatState, segmentCalls } from "./flat.ts";
import type { StateStores } from "./stores.ts";

export class UnitState {
  readonly name: string;
  readonly flats: readonly FlatState[];
  /** Itself and the units whose parameters it uses as well. */
  together: readonly UnitState[] = [this];
  /** Segments of the current micro-batch that ran forward and have not run backward. */
  openUses = 0;
  /** Whether the backward pass of the last micro-batch used its parameters. */
  usedInBackward = false;
  /** Whether its gradients have been settled in this micro-batch. */
  isSettled = false;

  constructor(layout: UnitLayout, parts: FlatParts) {
    this.name = layout.name;
    this.flats = layout.flats.map((flat) => new FlatState(flat, parts));
  }

  /** Elements that gathering it makes. */
  get gatherElements(): number {
    return this.flats.reduce((sum, f) => sum + (f.needsGather ? f.layout.paddedElements : 0), 0);
  }

  get isUsable(): boolean {
    return this.flats.every((f) => f.usable !== undefined);
  }

  get trainable(): readonly FlatState[] {
    return this.flats.filter((f) => f.layout.trainable);
  }
}

export class Units {
  readonly all: readonly UnitState[];
  readonly #byName: ReadonlyMap<string, UnitState>;
  readonly #model: DescribedModel;
  readonly #device: Device;
  readonly #group: ProcessGroup;
  readonly #plan: Plan;
  /** Gathers of the last micro-batch with and without backward, in order. */
  readonly #learned = new Map<string, readonly UnitState[]>();
  #mode = "";
  #order: UnitState[] = [];
  #held = new Set<UnitState>();
  #ahead = new Set<UnitState>();
  #current: UnitState | undefined;
  /** Whether what is gathered stays so, from pass to pass. */
  #keeps = false;

  constructor(
    device: Device,
    group: ProcessGroup,
    plan: Plan,
    model: DescribedModel,
    stores: StateStores,
    takeGradient: (flat: FlatState, parameter: Parameter) => { tensor: Tensor; accumulate: boolean },
  ) {
    this.#device = device;
    this.#group = group;
    this.#plan = plan;
    this.#model = model;
    const parts = { device, plan, rank: group.rank, stores };
    this.all = plan.units.map((unit) => new UnitState(unit, parts));
    this.#byName = new Map(this.all.map((unit) => [unit.name, unit]));
    for (const [i, { uses }] of plan.units.entries())
      this.all[i]!.together = [this.all[i]!, ...uses.map((name) => this.#byName.get(name)!)];
    for (const unit of this.all)
      for (const flat of unit.flats)
        for (const piece of flat.layout.pieces)
          model.parameters.get(piece.name)!.bind({
            unitName: unit.name,
            get value() {
              return flat.value(piece.name);
            },
            takeGradient: (parameter) => takeGradient(flat, parameter),
          });
  }

  unitOf(owner: object): UnitState {
    const unit = this.#byName.get(this.#model.unitOf(owner)) ?? this.all[0];
    if (!unit) throw new InternalError("a model without units");
    return unit;
  }

  get flats(): readonly FlatState[] {
    return this.all.flatMap((u) => u.flats);
  }

  /** @param mode micro-batches of one mode are taken to use units in the same order */
  beginPass(mode: "train" | "evaluate"): void {
    this.#mode = mode;
    this.#order = [];
  }

  /** Makes a unit usable for ops that are issued from now on. */
  enter(unit: UnitState, needsValues: boolean): void {
    if (this.#current && this.#current !== unit) this.#letGo(this.#current, unit);
    this.#current = unit;
    if (!needsValues) return;
    for (const part of unit.together) {
      this.#gather(part);
      this.#ahead.delete(part);
      for (const flat of part.flats) flat.isOpen = true;
    }
    this.#order.push(unit);
    this.#lookAhead();
  }

  /** The unit's code has run: its gathered values may not be read any more. */
  leave(unit: UnitState): void {
    for (const part of unit.together) for (const flat of part.flats) flat.isOpen = false;
  }

  /** Releases everything: the pass is over. */
  endPass(): void {
    this.#learned.set(this.#mode, this.#order);
    if (!this.#keeps) for (const unit of [...this.#held]) this.#release(unit);
    this.#current = undefined;
  }

  /** Device memory that all gathers together make. */
  get wholeBytes(): number {
    const { alignmentBytes } = this.#device;
    const bytes = dtypeBytes[this.#plan.residences.parameters.dtype];
    const buffers = this.flats.filter((flat) => flat.needsGather);
    return buffers.reduce(
      (sum, { layout }) => sum + Math.ceil((layout.paddedElements * bytes) / alignmentBytes) * alignmentBytes,
      0,
    );
  }

  /** Gathers every unit, between two passes; what is gathered stays so until `releaseAll`. */
  gatherAll(): void {
    this.#keeps = true;
    for (const unit of this.all) this.#gather(unit);
  }

  releaseAll(): void {
    this.#keeps = false;
    for (const unit of [...this.#held]) this.#release(unit);
  }

  dispose(): void {
    for (const parameter of this.#model.parameters.values()) parameter.bind(undefined);
    for (const flat of this.flats) flat.dispose();
  }

  #gather(unit: UnitState): void {
    const flats = unit.flats.filter((f) => f.isStale || (f.needsGather && !f.gathered));
    if (flats.length === 0) return;
    this.#device.timeline.remark(`gather ${unit.name}`);
    this.#device.timeline.within(unit.name, () => this.#gatherFlats(unit, flats));
  }

  #gatherFlats(unit: UnitState, flats: readonly FlatState[]): void {
    const parts = flats.map((state) => {
      const { parameters, own } = state;
      const { dtype, fetchQueue } = parameters;
      const copy = state.persistentCopy;
      const whole = copy ?? new FlatBuffer(this.#device, "gathered", state.whole, dtype, fetchQueue, "device");
      if (copy) state.isStale = false;
      else state.gathered = whole;
      return { state, whole, own: parameters.fetch(own, whole, state.ready) };
    });
    let done: Event | undefined;
    for (const segments of segmentCalls(parts, this.#plan.sizes.allgatherBucket.elements, this.#group.worldSize))
      done = this.#group.allGather(
        segments,
        this.#plan.residences.parameters.dtype,
        `the parameters of unit ${unit.name}`,
      );
    for (const state of flats) state.ready = [done!];
    this.#held.add(unit);
  }

  #release(unit: UnitState): void {
    this.#device.timeline.remark(`release ${unit.name}`);
    for (const state of unit.flats) {
      if (!state.gathered) continue;
      state.gathered.free();
      state.gathered = undefined;
      state.forgetViews();
    }
    this.#held.delete(unit);
    this.#ahead.delete(unit);
  }

  /** `unit` was used and `next` comes: release what is not needed again soon enough. */
  #letGo(unit: UnitState, next: UnitState): void {
    if (this.#keeps) return;
    for (const part of unit.together) {
      if (next.together.includes(part) || this.#ahead.has(part) || !this.#held.has(part)) continue;
      if (!this.#reusedSoon(part)) this.#release(part);
    }
  }

  /** Whether the unit is used again within the plan's reuse distance, and what is live allows keeping it. */
  #reusedSoon(unit: UnitState): boolean {
    const upcoming = this.#upcoming();
    const at = upcoming.indexOf(unit);
    if (at < 0 || this.#liveElements > this.#plan.sizes.liveParameters.elements) return false;
    const between = upcoming.slice(0, at).reduce((sum, u) => sum + u.gatherElements, 0);
    return between < this.#plan.sizes.reuseDistance.elements;
  }

  /** Gathers what is learned to come next, within the look-ahead and the live limit; what comes after that is read ahead. */
  #lookAhead(): void {
    let room = this.#plan.sizes.prefetch.elements;
    for (const unit of this.#ahead) room -= unit.gatherElements;
    let isFull = false;
    for (const unit of this.#upcoming()) {
      if (unit.isUsable) continue;
      const elements = unit.gatherElements;
      isFull ||= elements > room || this.#liveElements + elements > this.#plan.sizes.liveParameters.elements;
      if (isFull) {
        for (const flat of unit.flats) if (flat.needsGather) flat.parameters.readAhead?.();
        continue;
      }
      this.#gather(unit);
      this.#ahead.add(unit);
      room -= elements;
    }
  }

  get #liveElements(): number {
    let elements = 0;
    for (const unit of this.#held) elements += unit.gatherElements;
    return elements;
  }

  /** Learned uses after the ones made so far; none if this pass went another way. */
  #upcoming(): readonly UnitState[] {
    const learned = this.#learned.get(this.#mode) ?? [];
    return this.#order.every((unit, i) => learned[i] === unit) ? learned.slice(this.#order.length) : [];
  }
}
