// Trace events as the Trace Event Format (Chrome, Perfetto) wants them.
import { expect, test } from "vitest";
import type { OpName } from "../../src/device/ops.ts";
import type { QueueName } from "../../src/device/queue.ts";
import type { QueueSpan } from "../../src/device/timeline.ts";
import {
  renderProgramSpan,
  renderQueueSpan,
  renderThreads,
  spanName,
  traceBegin,
  traceEnd,
} from "../../src/report/trace-events.ts";

const span = (queue: QueueName, op: QueueSpan["op"], scope: string): QueueSpan => ({
  queue,
  sequence: 7,
  start: 1000.1234,
  end: 1010.5,
  op,
  args: undefined,
  scope,
  awaited: undefined,
});

test.each<[QueueName, OpName | "upload", string, string]>([
  ["compute", "matmul", "h.3 forward", "matmul h.3 forward"],
  ["compute", "upload", "", "upload"],
  ["compute", "copy", "h.1", "copy h.1"],
  ["collective", "allGather", "h.3", "gather h.3"],
  ["collective", "reduceScatter", "h.3, h.2", "reduce h.3, h.2"],
  ["down", "copy", "h.3", "copy down h.3"],
  ["up", "copy", "h.3", "copy up h.3"],
  ["update", "adam", "h.3", "update h.3"],
  ["update", "lion", "h.3", "update h.3"],
  ["diskRead", "diskRead", "states of h.3", "read states of h.3"],
  ["diskWrite", "diskWrite", "states of h.3", "write states of h.3"],
])("on %s %s of %j is called %j", (queue, op, scope, name) => {
  expect(spanName(span(queue, op, scope))).toBe(name);
});

test("a trace is JSON from the first event to the end, with a name for every process and thread", () => {
  const wait = { ...span("compute", undefined, "h.3 forward"), awaited: { queue: "up", sequence: 4 } as const };
  const text =
    traceBegin +
    renderThreads(0) +
    renderThreads(1) +
    renderQueueSpan(1, span("compute", "matmul", 'a "quoted" unit')) +
    renderQueueSpan(1, wait) +
    renderProgramSpan(1, { what: "step 3", start: 5, end: 8 }) +
    renderProgramSpan(1, { what: "gather h.3", start: 6, end: 6 }) +
    renderProgramSpan(1, { what: { queue: "update", sequence: 3 }, start: 6, end: 7 }) +
    traceEnd;
  const events = JSON.parse(text) as { name: string; ph: string; pid: number; tid: number; args?: { name?: string } }[];
  const named = (kind: string): (string | undefined)[] =>
    events.filter((e) => e.name === kind).map((e) => e.args?.name);
  expect(named("process_name")).toEqual(["rank 0", "rank 1"]);
  const threads = [
    "program",
    "compute",
    "collective",
    "copy down",
    "copy up",
    "host update",
    "disk read",
    "disk write",
  ];
  expect(named("thread_name")).toEqual([...threads, ...threads]);
  const threadOf = (name: string) => events.find((e) => e.args?.name === name && e.pid === 2)!.tid;
  const [compute, program] = [threadOf("compute"), threadOf("program")];
  expect(events.slice(-5)).toEqual([
    {
      name: 'matmul a "quoted" unit',
      ph: "X",
      pid: 2,
      tid: compute,
      cat: "op",
      ts: 1000.123,
      dur: 10.377,
      args: { op: 7 },
    },
    {
      name: "waits for copy up",
      ph: "X",
      pid: 2,
      tid: compute,
      cat: "wait",
      ts: 1000.123,
      dur: 10.377,
      args: { op: 7, awaits: 4, for: "h.3 forward" },
    },
    { name: "step 3", ph: "X", pid: 2, tid: program, cat: "program", ts: 5, dur: 3 },
    { name: "gather h.3", ph: "i", s: "t", pid: 2, tid: program, cat: "program", ts: 6 },
    { name: "waits for host update", ph: "X", pid: 2, tid: program, cat: "wait", ts: 6, dur: 1 },
  ]);
});
