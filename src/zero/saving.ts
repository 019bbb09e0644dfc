/**
 * Saving beside training. What is saved is changed by updates alone, and between two of them lies a whole forward and backward
 * pass: so states are read where they are, in the order in which units are updated, while the next step computes, and only the
 * update of a unit that has not been read to its end waits. That takes no memory, and what is read is the step's, to the bit.
 */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import { queueNames } from "../device/queue.ts";
import { type StateRange, type StateReader, stateRanges } from "./state.ts";
import type { UnitState } from "./unit.ts";

export class Savings {
  readonly #device: Device;
  readonly #group: ProcessGroup;
  readonly #units: readonly UnitState[];
  readonly #isInBase: (name: string) => boolean;
  readonly #readings = new Set<Reading>();
  #last: Promise<unknown> = Promise.resolve();

  /** @param isInBase whether a tensor can be read elsewhere, and is not saved */
  constructor(device: Device, group: ProcessGroup, units: readonly UnitState[], isInBase: (name: string) => boolean) {
    this.#isInBase = isInBase;
    this.#device = device;
    this.#group = group;
    this.#units = units;
  }

  /** Calls `body` with the states as they are at this call, once those before have been saved. */
  begin<T>(body: (states: StateReader) => Promise<T>): Promise<T> {
    const reading = new Reading(this.#units, this.#isInBase);
    this.#readings.add(reading);
    const device = this.#device;
    const before = this.#last.catch(() => undefined); // its error is its caller's
    // What was issued until now may still write the states; what is issued later waits, or writes something else.
    const complete = queueNames.map((queue) => device.reachedAside(device.mark(queue)));
    const done = Promise.all([before, this.#group.meet(), ...complete])
      .then(() => body(reading))
      .finally(() => {
        reading.end();
        this.#readings.delete(reading);
      });
    this.#last = done;
    return done;
  }

  /** Resolves once the states of a unit may be changed; undefined: they may now. */
  passed(unit: UnitState): Promise<unknown> | undefined {
    const waits = [...this.#readings].flatMap((reading) => reading.passed(unit) ?? []);
    if (waits.length === 0) return undefined;
    const started = this.#device.timeline.now();
    return Promise.all(waits).then(() => this.#device.timeline.noteProgram(`${unit.name} waits to be saved`, started));
  }

  /** Resolves when nothing is being saved any more, however it ended. */
  async idle(): Promise<void> {
    await this.#last.catch(() => undefined);
  }
}

/** What is still to be read of a unit. */
interface Left {
  ranges: number;
  readonly passed: Promise<void>;
  readonly pass: () => void;
}

class Reading implements StateReader {
  readonly ranges: readonly StateRange[];
  readonly #left = new Map<UnitState, Left>();
  readonly #unitOf = new Map<StateRange, UnitState>();

  constructor(units: readonly UnitState[], isInBase: (name: string) => boolean) {
    for (const unit of units) {
      const ranges = unit.flats.flatMap(stateRanges).filter(({ name }) => !isInBase(name));
      for (const range of ranges) this.#unitOf.set(range, unit);
      if (ranges.length > 0) this.#left.set(unit, { ranges: ranges.length, ...gate() });
    }
    this.ranges = [...this.#unitOf.keys()];
  }

  async read(range: StateRange, first: number, into: Float32Array<ArrayBuffer>): Promise<void> {
    await range.read(range.offset + first, into);
    if (first + into.length === range.count) this.#finish(this.#unitOf.get(range)!);
  }

  passed(unit: UnitState): Promise<void> | undefined {
    return this.#left.get(unit)?.passed;
  }

  end(): void {
    for (const { pass } of this.#left.values()) pass();
    this.#left.clear();
  }

  #finish(unit: UnitState): void {
    const left = this.#left.get(unit);
    if (!left || --left.ranges > 0) return;
    left.pass();
    this.#left.delete(unit);
  }
}

function gate(): Pick<Left, "passed" | "pass"> {
  let pass = (): void => {};
  const passed = new Promise<void>((resolve) => {
    pass = resolve;
  });
  return { passed, pass };
}
