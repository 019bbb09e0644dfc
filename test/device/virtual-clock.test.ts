// The virtual clock: order, waits, and what ops cost each other where they share something.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type QueueName, queueNames } from "../../src/device/queue.ts";
import { type Use, VirtualClock } from "../../src/device/virtual-clock.ts";
import { InternalError } from "../../src/errors/errors.ts";

const use = (resource: string, demand = 1): Use => ({ resource, demand });

/** A clock, and what is given to it in whole microseconds. */
function scene(capacity: Readonly<Record<string, number>> = {}) {
  const clock = new VirtualClock(capacity);
  for (const queue of queueNames) clock.measure(queue, true);
  const op = (queue: QueueName, micros: number, ...uses: Use[]) => ({
    queue,
    sequence: clock.issue(queue, { cost: { seconds: micros / 1e6, uses } }),
  });
  const wait = (queue: QueueName, awaited: { queue: QueueName; sequence: number }) => ({
    queue,
    sequence: clock.issue(queue, { awaited }),
  });
  /** [sequence, start, end] in microseconds, to a thousandth. */
  const spansOf = (queue: QueueName): number[][] => {
    const flat = [...clock.measure(queue, true)].map((micros) => Math.round(micros * 1e3) / 1e3);
    return Array.from({ length: flat.length / 3 }, (_, i) => flat.slice(3 * i, 3 * i + 3));
  };
  return { clock, op, wait, spansOf };
}

describe("queues", () => {
  test("a queue does one thing after the other, in the order in which it was given them", () => {
    const { clock, op, spansOf } = scene();
    const events = [30, 10, 20].map((micros) => op("compute", micros));
    expect(events.map(({ sequence }) => sequence)).toEqual([1, 2, 3]);
    clock.runUntil(events[1]!);
    expect(clock.now).toBeCloseTo(40, 6);
    clock.runUntil(events[2]!);
    expect(spansOf("compute")).toEqual([
      [1, 0, 30],
      [2, 30, 40],
      [3, 40, 60],
    ]);
  });

  test("time stands still until the program waits", () => {
    const { clock, op } = scene();
    op("compute", 100);
    expect(clock.now).toBe(0);
  });

  test("what is given to an idle queue begins now, not when the queue ended", () => {
    const { clock, op, spansOf } = scene();
    op("up", 10);
    clock.runUntil(op("compute", 50));
    clock.runUntil(op("up", 10));
    expect(spansOf("up")).toEqual([
      [1, 0, 10],
      [2, 50, 60],
    ]);
  });

  test("a queue waits for another one's op, and what comes after the wait with it", () => {
    const { clock, op, wait, spansOf } = scene();
    const copied = op("up", 70);
    op("compute", 20);
    wait("compute", copied);
    clock.runUntil(op("compute", 5));
    expect(clock.now).toBeCloseTo(75, 6);
    expect(spansOf("compute")).toEqual([
      [1, 0, 20],
      [2, 20, 70],
      [3, 70, 75],
    ]);
  });

  test("a wait for what has happened takes no time", () => {
    const { clock, op, wait } = scene();
    const copied = op("up", 5);
    op("compute", 20);
    wait("compute", copied);
    clock.runUntil(op("compute", 5));
    expect(clock.now).toBeCloseTo(25, 6);
  });

  test("waits that wait for waits pass together", () => {
    const { clock, op, wait } = scene();
    const first = op("diskRead", 40);
    const second = wait("update", first);
    const third = wait("up", second);
    clock.runUntil(wait("collective", third));
    expect(clock.now).toBeCloseTo(40, 6);
  });

  test("ops without anything in common overlap fully", () => {
    const { clock, op } = scene();
    op("collective", 80, use("peers"));
    op("down", 60, use("link"));
    const computed = op("compute", 100);
    clock.runUntil(computed);
    expect(clock.now).toBeCloseTo(100, 6);
  });

  test("the program goes on when its event has happened, whatever else is at work", () => {
    const { clock, op, wait, spansOf } = scene();
    const copied = op("up", 10);
    op("compute", 100);
    // The last thing of a queue may be a wait, or an op that takes no time.
    clock.runUntil(wait("collective", copied));
    expect(clock.now).toBeCloseTo(10, 6);
    clock.runUntil(op("down", 0));
    expect(clock.now).toBeCloseTo(10, 6);
    clock.runUntil(op("up", 10));
    expect(spansOf("up").at(-1)).toEqual([2, 10, 20]);
  });
});

describe("sharing", () => {
  test("two ops that would each have all of a thing take the sum of their times", () => {
    const { clock, op } = scene();
    const down = op("down", 50, use("link"));
    const collective = op("collective", 50, use("link"));
    clock.runUntil(down);
    expect(clock.now).toBeCloseTo(100, 6);
    clock.runUntil(collective);
    expect(clock.now).toBeCloseTo(100, 6);
  });

  test("what is left of the longer op has the thing to itself", () => {
    const { clock, op, spansOf } = scene();
    op("down", 30, use("link"));
    clock.runUntil(op("up", 100, use("link")));
    // The first ends after 2 x 30; the second has then done 30 of its 100.
    expect(spansOf("down")).toEqual([[1, 0, 60]]);
    expect(spansOf("up")).toEqual([[1, 0, 130]]);
  });

  test("an op that begins later slows what runs from then on", () => {
    const { clock, op, wait, spansOf } = scene();
    const gate = op("compute", 40);
    const copied = op("down", 100, use("link"));
    wait("up", gate);
    op("up", 20, use("link"));
    clock.runUntil(copied);
    // 40 alone, 40 beside the other (20 done), 40 alone again.
    expect(spansOf("up").at(-1)).toEqual([2, 40, 80]);
    expect(spansOf("down")).toEqual([[1, 0, 120]]);
  });

  test("demands that fit the capacity cost nothing; those that do not share it in proportion", () => {
    const fits = scene({ cores: 1 });
    fits.op("collective", 40, use("cores", 0.25));
    fits.clock.runUntil(fits.op("compute", 40, use("cores", 0.75)));
    expect(fits.clock.now).toBeCloseTo(40, 6);

    const shares = scene({ cores: 1 });
    shares.op("collective", 1000, use("cores", 0.25));
    shares.clock.runUntil(shares.op("compute", 40, use("cores", 1)));
    // 1 / (1 + 0.25) of its speed.
    expect(shares.clock.now).toBeCloseTo(50, 6);
  });

  test("a capacity above 1: a drive that reads 3 GB/s, writes 2 GB/s, and does 3.5 GB/s of both at once", () => {
    // A capacity of 2 x 3.5 / (3 + 2) = 1.4: each goes at 0.7 of its own speed, 2.1 and 1.4 GB/s.
    const { clock, op, spansOf } = scene({ drive: 1.4 });
    op("diskRead", 1000, use("drive")); // 3 MB
    const written = op("diskWrite", 1000, use("drive")); // 2 MB
    clock.runUntil(written);
    expect(clock.now).toBeCloseTo(1000 / 0.7, 3);
    expect(5e6 / (clock.now / 1e6)).toBeCloseTo(3.5e9, -3);
    expect(spansOf("diskRead")).toEqual([[1, 0, 1428.571]]);
    clock.runUntil(op("diskRead", 1000, use("drive")));
    expect(spansOf("diskRead").map(([, start, end]) => end! - start!)[0]).toBeCloseTo(1000, 3);
  });

  test("an op that uses two things goes as fast as the scarcer one lets it", () => {
    const { clock, op, spansOf } = scene({ link: 1, drive: 1.5 });
    op("down", 1000, use("link"));
    op("diskRead", 1000, use("drive"));
    clock.runUntil(op("collective", 100, use("link"), use("drive")));
    // Link: 1/2. Drive: 1.5/2.
    expect(spansOf("collective")).toEqual([[1, 0, 200]]);
  });
});

describe("what is not run", () => {
  test("lengthens the next op that takes time, and no other", () => {
    const { clock, op, wait, spansOf } = scene();
    const first = op("compute", 10);
    clock.lengthenNext("compute", 50e-6);
    wait("compute", first);
    op("compute", 0);
    op("compute", 20);
    op("up", 5);
    clock.runUntil(op("compute", 30));
    expect(spansOf("compute")).toEqual([
      [1, 0, 10],
      [2, 10, 10],
      [3, 10, 10],
      [4, 10, 80],
      [5, 80, 110],
    ]);
    expect(spansOf("up")).toEqual([[1, 0, 5]]);
  });

  test("goes on beside what other queues do", () => {
    const { clock, op } = scene();
    clock.lengthenNext("compute", 60e-6);
    clock.lengthenNext("compute", 30e-6);
    op("update", 80);
    clock.runUntil(op("compute", 10));
    expect(clock.now).toBeCloseTo(100, 6);
  });
});

describe("what cannot be", () => {
  test("waiting for what is never given ends in an error", () => {
    const { clock, op } = scene();
    op("compute", 10);
    expect(() => clock.runUntil({ queue: "compute", sequence: 2 })).toThrow(InternalError);
    expect(() => clock.runUntil({ queue: "up", sequence: 1 })).toThrow(/internal: the up queue waits .* op 1/);
  });

  test("queues that wait for each other end in an error", () => {
    const { clock, op, wait } = scene();
    wait("compute", { queue: "up", sequence: 2 });
    const computed = op("compute", 10);
    wait("up", computed);
    const copied = op("up", 10);
    expect(() => clock.runUntil(copied)).toThrow(InternalError);
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY, -1])("a cost of %d s is refused where it is given", (seconds) => {
    const { clock } = scene();
    expect(() => clock.issue("compute", { cost: { seconds, uses: [] } })).toThrow(InternalError);
    expect(clock.issue("compute", { cost: { seconds: 1, uses: [] } })).toBe(1);
  });
});

describe("measuring", () => {
  test("only a queue that is switched on is measured, and what was measured is given once", () => {
    const clock = new VirtualClock();
    const op = (queue: QueueName) => clock.issue(queue, { cost: { seconds: 1e-6, uses: [] } });
    clock.runUntil({ queue: "compute", sequence: op("compute") });
    expect(clock.measure("compute", true)).toHaveLength(0);
    clock.runUntil({ queue: "compute", sequence: op("compute") });
    clock.runUntil({ queue: "up", sequence: op("up") });
    expect(clock.measure("compute", false)[0]).toBe(2);
    expect(clock.measure("compute", false)).toHaveLength(0);
    clock.runUntil({ queue: "compute", sequence: op("compute") });
    expect(clock.measure("compute", true)).toHaveLength(0);
    expect(clock.measure("up", true)).toHaveLength(0);
  });

  test("thousands of ops stay in order", () => {
    const { clock, op, spansOf } = scene();
    let last = op("compute", 1);
    for (let i = 1; i < 5000; i++) last = op("compute", 1);
    clock.runUntil(last);
    const spans = spansOf("compute");
    expect(spans.map(([sequence]) => sequence)).toEqual(Array.from({ length: 5000 }, (_, i) => i + 1));
    expect(clock.now).toBeCloseTo(5000, 3);
  });
});

// --- any program ---

interface Planned {
  readonly queue: QueueName;
  /** Undefined: a wait. */
  readonly micros: number | undefined;
  readonly uses: readonly Use[];
  /** Index of an earlier one in the program. */
  readonly awaited: number | undefined;
}

const resources = { link: 1, drive: 1.5, cores: 2 };

const programs = fc
  .array(
    fc.record({
      queue: fc.constantFrom(...queueNames),
      micros: fc.integer({ min: 0, max: 50 }),
      uses: fc.uniqueArray(
        fc.record({
          resource: fc.constantFrom(...Object.keys(resources)),
          demand: fc.constantFrom(0.25, 0.5, 1),
        }),
        { selector: ({ resource }) => resource, maxLength: 2 },
      ),
      isWait: fc.boolean(),
      awaited: fc.nat(),
    }),
    { minLength: 1, maxLength: 40 },
  )
  .map((items) =>
    items.map(({ queue, micros, uses, isWait, awaited }, i): Planned => {
      const waits = isWait && i > 0;
      return {
        queue,
        micros: waits ? undefined : micros,
        uses: waits ? [] : uses,
        awaited: waits ? awaited % i : undefined,
      };
    }),
  );

interface Done extends Planned {
  readonly start: number;
  readonly end: number;
}

/** What the clock makes of a program that is issued at once. */
function run(program: readonly Planned[]): { readonly done: readonly Done[]; readonly makespan: number } {
  const clock = new VirtualClock(resources);
  for (const queue of queueNames) clock.measure(queue, true);
  const events: { queue: QueueName; sequence: number }[] = [];
  for (const { queue, micros, uses, awaited } of program) {
    const work =
      micros === undefined ? { awaited: events[awaited!]! } : { cost: { seconds: micros / 1e6, uses: [...uses] } };
    events.push({ queue, sequence: clock.issue(queue, work) });
  }
  for (const event of events) clock.runUntil(event);
  const measured = new Map(queueNames.map((queue) => [queue, clock.measure(queue, true)]));
  const done = program.map((planned, i): Done => {
    const { queue, sequence } = events[i]!;
    const spans = measured.get(queue)!;
    expect(spans[3 * (sequence - 1)]).toBe(sequence);
    return { ...planned, start: spans[3 * sequence - 2]!, end: spans[3 * sequence - 1]! };
  });
  return { done, makespan: clock.now };
}

/** What a program takes at least: along its queues and waits as if nothing were shared. */
function criticalMicros(program: readonly Planned[]): number {
  const ends: number[] = [];
  const lastOf = new Map<QueueName, number>();
  for (const { queue, micros, awaited } of program) {
    const before = lastOf.get(queue) ?? 0;
    const end = micros === undefined ? Math.max(before, ends[awaited!]!) : before + micros;
    ends.push(end);
    lastOf.set(queue, end);
  }
  return Math.max(...ends);
}

/** The work that `op` gets done, by the rule: beside others it goes at the least of capacity / demand, at most at its own speed. */
function workDone(op: Done, ops: readonly Done[], moments: readonly number[]): number {
  let work = 0;
  for (let i = 1; i < moments.length; i++) {
    const [from, to] = [moments[i - 1]!, moments[i]!];
    const middle = (from + to) / 2;
    if (op.start > middle || op.end < middle) continue;
    const active = ops.filter(({ start, end }) => start < middle && end > middle);
    const speeds = op.uses.map(({ resource }) => {
      const demand = active.flatMap(({ uses }) => uses).filter((u) => u.resource === resource);
      return resources[resource as keyof typeof resources] / demand.reduce((sum, u) => sum + u.demand, 0);
    });
    work += (to - from) * Math.min(1, ...speeds);
  }
  return work;
}

describe("any program", () => {
  const close = 1e-4;

  test("everything begins as soon as it can, in the order of its queue", () => {
    fc.assert(
      fc.property(programs, (program) => {
        const { done } = run(program);
        const lastOf = new Map<QueueName, number>();
        for (const { queue, micros, awaited, start, end } of done) {
          expect(start).toBeCloseTo(lastOf.get(queue) ?? 0, 4);
          if (micros === undefined) expect(end).toBeCloseTo(Math.max(start, done[awaited!]!.end), 4);
          lastOf.set(queue, end);
        }
      }),
    );
  });

  test("every op gets its work done at the speed of the rule, no sooner and no later", () => {
    fc.assert(
      fc.property(programs, (program) => {
        const { done } = run(program);
        const ops = done.filter(({ micros }) => micros !== undefined);
        const moments = [...new Set(ops.flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b);
        for (const op of ops) expect(Math.abs(workDone(op, ops, moments) - op.micros!)).toBeLessThan(close);
      }),
    );
  });

  test("no program is faster than its critical path, nor than what its work takes of each thing", () => {
    fc.assert(
      fc.property(programs, (program) => {
        const { makespan } = run(program);
        expect(makespan).toBeGreaterThan(criticalMicros(program) - close);
        for (const [resource, capacity] of Object.entries(resources)) {
          const work = program.flatMap(({ micros, uses }) =>
            uses.filter((u) => u.resource === resource).map(({ demand }) => demand * (micros ?? 0)),
          );
          expect(makespan).toBeGreaterThan(work.reduce((sum, w) => sum + w, 0) / capacity - close);
        }
      }),
    );
  });

  test("where nothing is shared a program takes its critical path", () => {
    fc.assert(
      fc.property(programs, (program) => {
        const alone = program.map((planned) => ({ ...planned, uses: [] }));
        expect(run(alone).makespan).toBeCloseTo(criticalMicros(alone), 3);
      }),
    );
  });
});
