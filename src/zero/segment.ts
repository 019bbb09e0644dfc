/** Where the optimizer states of a part of a flat buffer rest, and how they become addressable for an update. */
import type { Device } from "../device/device.ts";
import type { OptimizerPart, Tier } from "../device/ledger.ts";
import type { Event, MemoryTier } from "../device/queue.ts";
import type { DiskStates, StateRecord } from "./disk-states.ts";
import { type Elements, elementsNow, type FlatBuffer, type Range } from "./elements.ts";

/** Optimizer states that ops can address. */
export interface StatesInMemory {
  part(part: OptimizerPart): Elements;
}

/** Reduced gradients at rest, and when the last update has read them. */
interface RestingGradients {
  readonly buffer: FlatBuffer;
  read: Event;
}

/** A part of what a rank updates, whose optimizer states live in one tier. */
export class StateSegment implements Range {
  readonly start: number;
  readonly end: number;
  /** Where the update runs. */
  readonly computeTier: MemoryTier;
  readonly states: SegmentStates;
  /** When this step's gradients are complete. */
  settled: Event = never;
  #current: RestingGradients;
  /** With delayed updates gradients of the next step come while these are still being read. */
  #other: RestingGradients;

  constructor(range: Range, computeTier: MemoryTier, states: SegmentStates, gradients: readonly FlatBuffer[]) {
    this.start = range.start;
    this.end = range.end;
    this.computeTier = computeTier;
    this.states = states;
    const [first, second = first] = gradients.map((buffer) => ({ buffer, read: never }));
    this.#current = first!;
    this.#other = second!;
  }

  /** What this step's gradients are collected in, and what the next update reads. */
  get gradients(): FlatBuffer {
    return this.#current.buffer;
  }

  /** When nothing reads them any more. */
  get overwritable(): Event {
    return this.#current.read;
  }

  get gradientBuffers(): readonly FlatBuffer[] {
    return [...new Set([this.#current.buffer, this.#other.buffer])];
  }

  /** An update that was issued reads the gradients until `read`; later ones are collected elsewhere, if there is a second buffer. */
  giveToUpdate(read: Event): void {
    this.#current.read = read;
    [this.#current, this.#other] = [this.#other, this.#current];
  }
}

/** An event that has happened. */
const never: Event = { queue: "compute", sequence: 0 };

/** The states of one segment, sub-group by sub-group. */
export interface SegmentStates {
  readonly tier: Tier;
  readonly parts: readonly OptimizerPart[];
  /** Neighbours in order; together the segment. */
  readonly subGroups: readonly Range[];
  /** Calls `body` with the states of a sub-group; it returns what reads them beside the ops on their queue. */
  update(subGroup: Range, body: (states: StatesInMemory) => readonly Event[]): void;
  /** The same for first values: `body` writes all of them. */
  fill(subGroup: Range, body: (states: StatesInMemory) => Promise<void>): Promise<void>;
  /** Fills `into` with fp32 values from element `offset` on, of one sub-group; no update of them may be under way. */
  read(part: OptimizerPart, offset: number, into: Float32Array<ArrayBuffer>): Promise<void>;
  dispose(): void;
}

/** States in the memory of the device or the host. */
export class MemoryStates implements SegmentStates {
  readonly tier: MemoryTier;
  readonly parts: readonly OptimizerPart[];
  readonly subGroups: readonly Range[];
  readonly #own: ReadonlyMap<OptimizerPart, FlatBuffer>;
  readonly #master: FlatBuffer | undefined;
  readonly #device: Device;

  /** @param master the parameters, where these are their own master */
  constructor(
    device: Device,
    own: ReadonlyMap<OptimizerPart, FlatBuffer>,
    master: FlatBuffer | undefined,
    tier: MemoryTier,
    subGroups: readonly Range[],
  ) {
    this.#device = device;
    this.#own = own;
    this.#master = master;
    this.parts = [...(master ? (["master"] as const) : []), ...own.keys()];
    this.tier = tier;
    this.subGroups = subGroups;
  }

  part(part: OptimizerPart): FlatBuffer {
    return this.#own.get(part) ?? this.#master!;
  }

  update(_subGroup: Range, body: (states: StatesInMemory) => unknown): void {
    body(this);
  }

  async fill(_subGroup: Range, body: (states: StatesInMemory) => Promise<void>): Promise<void> {
    await body(this);
  }

  async read(part: OptimizerPart, offset: number, into: Float32Array<ArrayBuffer>): Promise<void> {
    elementsNow(this.#device, this.part(part), offset, into);
  }

  dispose(): void {
    for (const buffer of this.#own.values()) buffer.free();
  }
}

/** States on disk. */
export class StatesOnDisk implements SegmentStates {
  readonly tier = "disk";
  readonly parts: readonly OptimizerPart[];
  readonly subGroups: readonly StateRecord[];
  readonly #store: DiskStates;

  constructor(store: DiskStates, range: Range) {
    this.#store = store;
    this.parts = store.parts;
    this.subGroups = store.place(range);
  }

  update(subGroup: Range, body: (states: StatesInMemory) => readonly Event[]): void {
    this.#store.update(subGroup as StateRecord, body);
  }

  fill(subGroup: Range, body: (states: StatesInMemory) => Promise<void>): Promise<void> {
    return this.#store.fill(subGroup as StateRecord, body);
  }

  read(part: OptimizerPart, offset: number, into: Float32Array<ArrayBuffer>): Promise<void> {
    const record = this.subGroups.find((r) => r.start <= offset && offset < r.end)!;
    return this.#store.read(record, part, offset, into);
  }

  dispose(): void {
    this.#store.release(this.subGroups);
  }
}
