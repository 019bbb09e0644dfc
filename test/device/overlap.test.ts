// The hidden share on spans whose answer can be worked out by hand. A span is [start, end] in microseconds.
import { expect, test } from "vitest";
import { OverlapLedger, type OverlappedQueue, type Reach } from "../../src/device/overlap.ts";
import { type QueueName, queueNames } from "../../src/device/queue.ts";

const reachOf = (highest: Partial<Record<QueueName, number>>): Reach => queueNames.map((q) => highest[q] ?? 0);

/** A ledger that is told of spans in a few words; sequence numbers count by themselves. */
class Scene {
  readonly ledger = new OverlapLedger();
  readonly #sequences = new Map<QueueName, number>();
  readonly running = new Set<QueueName>();

  op(queue: QueueName, start: number, end: number, counts = true): this {
    return this.#add(queue, start, end, undefined, counts);
  }

  /** A wait of a queue for what depends on `reach`. */
  wait(queue: QueueName, start: number, end: number, reach: Partial<Record<QueueName, number>>): this {
    return this.#add(queue, start, end, reachOf(reach), true);
  }

  /** The program awaited something from `start` to `end`. */
  program(start: number, end: number, reach: Partial<Record<QueueName, number>>): this {
    this.ledger.programWaits(start, reachOf(reach))(end);
    return this;
  }

  settle(): this {
    this.ledger.settle((queue) => this.running.has(queue));
    return this;
  }

  /** [duration, waited] of a queue's settled ops, in microseconds. */
  taken(queue: OverlappedQueue): number[] {
    const { seconds, waitedSeconds } = this.ledger.take()[queue];
    return [Math.round(seconds * 1e6), Math.round(waitedSeconds * 1e6)];
  }

  #add(queue: QueueName, start: number, end: number, reach: Reach | undefined, counts: boolean): this {
    const sequence = (this.#sequences.get(queue) ?? 0) + 1;
    this.#sequences.set(queue, sequence);
    this.ledger.add({ queue, sequence, start, end, reach, counts });
    return this;
  }
}

test("what ran while compute computed is hidden", () => {
  const scene = new Scene().op("down", 10, 60).op("compute", 0, 100).settle();
  expect(scene.taken("down")).toEqual([50, 0]);
});

test("what compute waited for is not, and only for as long as it waited", () => {
  const scene = new Scene();
  scene.op("collective", 50, 150).op("compute", 0, 100).wait("compute", 100, 151, { collective: 1 });
  scene.op("compute", 151, 200).settle();
  expect(scene.taken("collective")).toEqual([100, 50]);
});

test("a wait is charged to all that the awaited op depended on, each with its own time in it", () => {
  // compute waits for a gather, that for a copy, that for an update, that for a read.
  const scene = new Scene();
  scene.op("diskRead", 0, 120); // 20 of it while compute waits
  scene.wait("update", 0, 120, { diskRead: 1 }).op("update", 120, 170);
  scene.wait("up", 0, 170, { update: 2, diskRead: 1 }).op("up", 170, 180);
  scene.wait("collective", 0, 180, { up: 2, update: 2, diskRead: 1 }).op("collective", 180, 200);
  scene.op("compute", 0, 100);
  scene.wait("compute", 100, 200, { collective: 2, up: 2, update: 2, diskRead: 1 }).op("compute", 200, 210).settle();
  const times = scene.ledger.take();
  const waited = (queue: OverlappedQueue): number => Math.round(times[queue].waitedSeconds * 1e6);
  expect(waited("diskRead")).toBe(20);
  expect(waited("update")).toBe(50);
  expect(waited("up")).toBe(10);
  expect(waited("collective")).toBe(20);
  expect(times.diskRead.seconds).toBeCloseTo(120e-6, 12);
  expect(times.diskWrite).toEqual({ seconds: 0, waitedSeconds: 0 });
});

test("what only ran at the same time is not charged", () => {
  const scene = new Scene();
  scene.op("diskWrite", 100, 180); // nobody waits for it
  scene.op("update", 90, 190).op("update", 190, 195); // the wait is for the first update alone
  scene.op("compute", 0, 100).wait("compute", 100, 190, { update: 1 }).op("compute", 190, 300).settle();
  const times = scene.ledger.take();
  expect(times.diskWrite.waitedSeconds).toBe(0);
  expect(Math.round(times.update.waitedSeconds * 1e6)).toBe(90);
  expect(Math.round(times.update.seconds * 1e6)).toBe(105);
});

test("the program's own waits count while compute has nothing to do, several at once only once", () => {
  const scene = new Scene();
  scene.op("down", 80, 140).op("compute", 0, 100);
  scene.program(50, 140, { down: 1 }).program(120, 150, { down: 1 });
  scene.op("compute", 160, 170).settle();
  expect(scene.taken("down")).toEqual([60, 40]);
});

test("idle time in which nobody waited for it is nobody's", () => {
  const scene = new Scene().op("down", 80, 140).op("compute", 0, 100).op("compute", 160, 170).settle();
  expect(scene.taken("down")).toEqual([60, 0]);
});

test("an op is charged once compute is known to have gone on, also when it is learned of late", () => {
  const scene = new Scene();
  scene.running.add("update");
  scene.op("compute", 0, 100).wait("compute", 100, 200, { update: 1 }).op("compute", 200, 300).settle();
  expect(scene.taken("update")).toEqual([0, 0]);
  scene.op("update", 50, 199).settle();
  expect(scene.taken("update")).toEqual([149, 99]);
  scene.op("update", 250, 350).settle();
  expect(scene.taken("update")).toEqual([0, 0]); // compute may still have to wait for it
  scene.wait("compute", 300, 350, { update: 2 }).settle();
  expect(scene.taken("update")).toEqual([100, 50]);
});

test("what was issued between steps does not count", () => {
  const scene = new Scene().op("diskRead", 10, 20, false).op("diskRead", 20, 30).op("compute", 0, 100).settle();
  expect(scene.taken("diskRead")).toEqual([10, 0]);
});

test("a share is from 0 to 1 whatever comes", () => {
  let state = 7;
  const draw = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state % below;
  };
  const scene = new Scene();
  const at = new Map<QueueName, number>(queueNames.map((q) => [q, 0]));
  for (let i = 0; i < 4000; i++) {
    const queue = queueNames[draw(queueNames.length)]!;
    const start = at.get(queue)! + draw(20);
    const end = start + draw(50);
    at.set(queue, end);
    if (draw(3) === 0) scene.wait(queue, start, end, Object.fromEntries(queueNames.map((q) => [q, draw(i + 1)])));
    else scene.op(queue, start, end);
    if (draw(5) === 0) scene.program(start, start + draw(200), { down: draw(i + 1), update: draw(i + 1) });
    if (draw(50) === 0) scene.settle();
  }
  const times = scene.settle().ledger.take();
  for (const { seconds, waitedSeconds } of Object.values(times)) {
    expect(seconds).toBeGreaterThan(0);
    expect(waitedSeconds).toBeGreaterThan(0);
    expect(waitedSeconds).toBeLessThanOrEqual(seconds * (1 + 1e-12));
  }
});
