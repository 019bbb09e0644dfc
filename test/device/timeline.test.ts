// Names and measured times meet; what is off costs nothing and what is long stays small.
import { expect, test } from "vitest";
import { type QueueName, queueNames } from "../../src/device/queue.ts";
import { nowMicroseconds, type ProgramSpan, type QueueSpan, Timeline } from "../../src/device/timeline.ts";

/** A timeline over queues that take 10 microseconds for everything, and what it handed on. */
function scene() {
  const switched = new Map<QueueName, boolean>();
  const issued = new Map<QueueName, number>(queueNames.map((q) => [q, 0]));
  const measured = new Map<QueueName, number[]>(queueNames.map((q) => [q, []]));
  const timeline = new Timeline((queue, enabled) => {
    switched.set(queue, enabled);
    return Float64Array.from(measured.get(queue)!.splice(0));
  }, nowMicroseconds);
  const next = (queue: QueueName) => {
    const sequence = issued.get(queue)! + 1;
    issued.set(queue, sequence);
    if (switched.get(queue)) measured.get(queue)!.push(sequence, 10 * sequence, 10 * sequence + 10);
    return { queue, sequence };
  };
  const spans: QueueSpan[] = [];
  const program: ProgramSpan[] = [];
  const sink = {
    queues: (s: readonly QueueSpan[]) => spans.push(...s),
    program: (s: readonly ProgramSpan[]) => program.push(...s),
  };
  return { timeline, switched, next, spans, program, sink };
}

test("while it is off nothing is measured and nothing noted", () => {
  const { timeline, switched, next, spans, program, sink } = scene();
  timeline.noteOp(next("compute"), "matmul");
  timeline.remark("gather h.0");
  timeline.drain();
  expect([...switched.values()]).not.toContain(true);
  timeline.record(sink);
  timeline.drain();
  expect([...spans, ...program]).toEqual([]);
});

test("a span has the time of its queue, the op and the scope of its issue", () => {
  const { timeline, next, spans, sink } = scene();
  next("compute"); // before it was on
  timeline.record(sink);
  timeline.scope = "h.1 forward";
  timeline.noteOp(next("compute"), "matmul");
  timeline.within("h.2", () => timeline.noteOp(next("up"), "copy"));
  timeline.noteWait(next("compute"), { queue: "up", sequence: 1 });
  timeline.drain();
  expect(spans).toEqual([
    { queue: "compute", sequence: 2, start: 20, end: 30, op: "matmul", scope: "h.1 forward", awaited: undefined },
    {
      queue: "compute",
      sequence: 3,
      start: 30,
      end: 40,
      op: undefined,
      scope: "h.1 forward",
      awaited: { queue: "up", sequence: 1 },
    },
    { queue: "up", sequence: 1, start: 10, end: 20, op: "copy", scope: "h.2", awaited: undefined },
  ]);
});

test("a scope ends with its body, also when that throws", () => {
  const { timeline } = scene();
  timeline.scope = "outer";
  expect(() =>
    timeline.within("inner", () => {
      expect(timeline.scope).toBe("inner");
      throw new Error("no");
    }),
  ).toThrow("no");
  expect(timeline.scope).toBe("outer");
});

test("spans are handed on before a long step is over", () => {
  const { timeline, next, spans, sink } = scene();
  timeline.record(sink);
  for (let i = 0; i < 20_000; i++) timeline.noteOp(next("compute"), "add");
  expect(spans.length).toBeGreaterThan(10_000);
  timeline.drain();
  expect(spans.map((s) => s.sequence)).toEqual(Array.from({ length: 20_000 }, (_, i) => i + 1));
});

test("a recording can end and begin again", () => {
  const { timeline, switched, next, spans, sink } = scene();
  timeline.record(sink);
  timeline.noteOp(next("compute"), "add");
  timeline.record(undefined);
  expect(spans).toHaveLength(1);
  expect([...switched.values()]).not.toContain(true);
  timeline.noteOp(next("compute"), "scale");
  timeline.record(sink);
  timeline.noteOp(next("compute"), "gelu");
  timeline.drain();
  expect(spans.map((s) => s.op)).toEqual(["add", "gelu"]);
});

test("a wait reaches what the awaited op had waited for, through other queues", () => {
  const { timeline, next } = scene();
  timeline.measureOverlap();
  timeline.beginStep();
  timeline.noteOp(next("diskRead"), "diskRead"); // 10 to 20
  timeline.noteWait(next("update"), { queue: "diskRead", sequence: 1 }); // 10 to 20
  timeline.noteOp(next("update"), "adam"); // 20 to 30
  timeline.noteOp(next("diskWrite"), "diskWrite"); // 10 to 20, awaited by nobody
  timeline.noteWait(next("compute"), { queue: "update", sequence: 2 }); // 10 to 20: while the read runs
  timeline.noteOp(next("compute"), "add");
  const times = timeline.takeOverlap();
  expect(times.diskRead).toEqual({ seconds: 10e-6, waitedSeconds: 10e-6 });
  expect(times.update).toEqual({ seconds: 10e-6, waitedSeconds: 0 });
  expect(times.diskWrite).toEqual({ seconds: 10e-6, waitedSeconds: 0 });
});

test("an event is reached as far as its queue had waited by then, not as far as it waited later", () => {
  const { timeline, next } = scene();
  timeline.measureOverlap();
  timeline.beginStep();
  timeline.noteOp(next("collective"), "allGather"); // 10 to 20
  timeline.noteOp(next("up"), "copy"); // 10 to 20
  timeline.noteWait(next("collective"), { queue: "up", sequence: 1 });
  timeline.noteWait(next("compute"), { queue: "collective", sequence: 1 }); // 10 to 20
  timeline.noteOp(next("compute"), "add");
  const times = timeline.takeOverlap();
  expect(times.collective.waitedSeconds).toBe(10e-6);
  expect(times.up.waitedSeconds).toBe(0);
});
