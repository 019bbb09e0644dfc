/**
 * The timeline of a rank as Chrome trace events (the format of chrome://tracing, which Perfetto reads): the rank is a process, its
 * program and each of its queues a thread, every op and every wait a complete event ("ph": "X"). Times are microseconds.
 */
import type { OpName } from "../device/ops.ts";
import { type Event, type QueueName, queueNames } from "../device/queue.ts";
import type { ProgramSpan, QueueSpan } from "../device/timeline.ts";

/** Threads in the order in which they are shown. */
const threadNames: Readonly<Record<QueueName, string>> = {
  compute: "compute",
  collective: "collective",
  down: "copy down",
  up: "copy up",
  update: "host update",
  diskRead: "disk read",
  diskWrite: "disk write",
};
// Number 0 is the idle process or thread to tools that read traces.
const processOf = (rank: number): number => rank + 1;
const programThread = 1;
const threadOf = (queue: QueueName): number => queueNames.indexOf(queue) + 2;

/** What ops are called that a reader knows by another name than the op table does. */
const words: Readonly<Partial<Record<OpName | "upload", string>>> = {
  allGather: "gather",
  reduceScatter: "reduce",
  adam: "update",
  lion: "update",
  sgd: "update",
  adagrad: "update",
  diskRead: "read",
  diskWrite: "write",
};

/** "gather h.3", "matmul h.3 forward", "copy up h.3", "read states of h.3", "waits for copy up". */
export function spanName({ queue, op, scope, awaited }: QueueSpan): string {
  if (awaited) return waitName(awaited);
  const crosses = op === "copy" && (queue === "down" || queue === "up");
  return `${crosses ? threadNames[queue] : (words[op!] ?? op!)} ${scope}`.trimEnd();
}

interface TraceEvent {
  readonly name: string;
  readonly ph: "X" | "M" | "i";
  readonly pid: number;
  readonly tid: number;
  readonly cat?: "op" | "wait" | "program";
  readonly ts?: number;
  readonly dur?: number;
  /** Of an instant event: it belongs to its thread. */
  readonly s?: "t";
  readonly args?: object;
}

/** Where a trace begins and ends; between them are any number of events as the functions below render them. */
export const traceBegin = '[{"name":"trace_format","ph":"M","pid":0,"tid":0,"args":{"writer":"shunya"}}';
export const traceEnd = "\n]\n";

export function renderThreads(rank: number): string {
  const meta = (name: string, tid: number, args: object): string =>
    render({ name, ph: "M", pid: processOf(rank), tid, args });
  const threads: [string, number][] = [
    ["program", programThread],
    ...queueNames.map((q): [string, number] => [threadNames[q], threadOf(q)]),
  ];
  return [
    meta("process_name", programThread, { name: `rank ${rank}` }),
    meta("process_sort_index", programThread, { sort_index: rank }),
    ...threads.flatMap(([name, tid]) => [
      meta("thread_name", tid, { name }),
      meta("thread_sort_index", tid, { sort_index: tid }),
    ]),
  ].join("");
}

export function renderQueueSpan(rank: number, span: QueueSpan): string {
  const { queue, sequence, scope, start, end, awaited } = span;
  return render({
    name: spanName(span),
    ph: "X",
    pid: processOf(rank),
    tid: threadOf(queue),
    cat: awaited ? "wait" : "op",
    ts: rounded(start),
    dur: rounded(end - start),
    args: awaited ? { op: sequence, awaits: awaited.sequence, for: scope } : { op: sequence },
  });
}

export function renderProgramSpan(rank: number, { what, start, end }: ProgramSpan): string {
  const [name, cat] = typeof what === "string" ? ([what, "program"] as const) : ([waitName(what), "wait"] as const);
  const common = { name, cat, pid: processOf(rank), tid: programThread, ts: rounded(start) };
  return render(start === end ? { ...common, ph: "i", s: "t" } : { ...common, ph: "X", dur: rounded(end - start) });
}

const waitName = ({ queue }: Event): string => `waits for ${threadNames[queue]}`;
const render = (event: TraceEvent): string => `,\n${JSON.stringify(event)}`;
const rounded = (micros: number): number => Math.round(micros * 1000) / 1000;
