/**
 * The timeline: what every queue did and when. A name is noted where an op or a wait is issued, the native queue measures it with
 * its own clock, and the two are joined by (queue, sequence). While it is off, nothing is noted and nothing measured.
 */
import type { OpArgs, OpName } from "./ops.ts";
import { OverlapLedger, type OverlapTimes, type Reach } from "./overlap.ts";
import { type Event, type QueueName, queueNames } from "./queue.ts";

/** Something that a queue was given; times in microseconds of the machine's monotonic clock, which all ranks of a machine share. */
export interface QueueSpan {
  readonly queue: QueueName;
  readonly sequence: number;
  readonly start: number;
  readonly end: number;
  /** What it is; undefined for a wait. */
  readonly op: OpName | "upload" | undefined;
  /** Of an op: what it was given. */
  readonly args: OpArgs<OpName> | undefined;
  /** What it belongs to: a unit and its pass, say. */
  readonly scope: string;
  /** Of a wait: for what. */
  readonly awaited: Event | undefined;
}

/** Something that the program did, which issues the ops: a phase, a wait, or (start = end) a moment. */
export interface ProgramSpan {
  /** Of a wait: for what. */
  readonly what: string | Event;
  readonly start: number;
  readonly end: number;
}

export interface TimelineSink {
  /** In the order of each queue. */
  queues(spans: readonly QueueSpan[]): void;
  /** In the order in which they ended. */
  program(spans: readonly ProgramSpan[]): void;
}

interface Note {
  readonly op: QueueSpan["op"];
  readonly args: QueueSpan["args"];
  readonly scope: string;
  readonly awaited: Event | undefined;
  /** Of a wait: what the awaited event depended on. */
  readonly reach: Reach | undefined;
  readonly counts: boolean;
}

/** So many notes are joined and handed on together, so that a step of any length takes bounded memory. */
const notesHeld = 8192;

/** Notes of a queue whose spans have not come yet. Sequence numbers have no gaps. */
class NoteList {
  #first = 0;
  #notes: Note[] = [];

  get length(): number {
    return this.#notes.length;
  }

  push(sequence: number, note: Note): void {
    if (this.#notes.length === 0) this.#first = sequence;
    this.#notes.push(note);
  }

  at(sequence: number): Note | undefined {
    return this.#notes[sequence - this.#first];
  }

  clear(): void {
    this.#notes = [];
  }

  dropUpTo(sequence: number): void {
    const done = sequence - this.#first + 1;
    if (done <= 0) return;
    this.#notes = this.#notes.slice(done);
    this.#first = sequence + 1;
  }
}

export class Timeline {
  /** What is issued now belongs to this; whoever issues says it. */
  scope = "";
  /** Microseconds on the clock of the device's queues. */
  readonly now: () => number;
  readonly #measure: (queue: QueueName, enabled: boolean) => Float64Array;
  readonly #notes = Object.fromEntries(queueNames.map((q) => [q, new NoteList()])) as Record<QueueName, NoteList>;
  /** What the last op of each queue depends on, itself included: of every queue the highest sequence. */
  readonly #reaches = Object.fromEntries(queueNames.map((q) => [q, [] as ReachStep[]])) as Record<
    QueueName,
    ReachStep[]
  >;
  #overlap: OverlapLedger | undefined;
  #sink: TimelineSink | undefined;
  #program: ProgramSpan[] = [];
  #sinceDrain = 0;
  #counts = false;
  #stepStarted = 0;

  /**
   * @param measure switches a queue's clock, and gives what it measured since the last call: [sequence, start, end] triples
   * @param now the same clock, in microseconds
   */
  constructor(measure: (queue: QueueName, enabled: boolean) => Float64Array, now: () => number) {
    this.#measure = measure;
    this.now = now;
  }

  get isOn(): boolean {
    return this.#overlap !== undefined || this.#sink !== undefined;
  }

  /** From now on the overlap of transfers with compute is measured. */
  measureOverlap(): void {
    this.#overlap ??= new OverlapLedger();
    this.#switch();
  }

  /** From now on every span goes to `sink`; undefined: no longer. */
  record(sink: TimelineSink | undefined): void {
    if (this.isOn) this.drain();
    this.#sink = sink;
    this.#switch();
  }

  /** Only what is issued within a step counts in the overlap: reading weights for a checkpoint, say, is no part of training. */
  beginStep(): void {
    this.#stepStarted = this.now();
    this.#counts = true;
  }

  /** @param step its number, from 1 */
  endStep(step: number): void {
    this.noteProgram(`step ${step}`, this.#stepStarted);
    this.#counts = false;
  }

  /** Since the last call. Zeros where it is not measured. */
  takeOverlap(): OverlapTimes {
    this.drain();
    return (this.#overlap ?? new OverlapLedger()).take();
  }

  /** Ops that `body` issues belong to `scope`. */
  within<T>(scope: string, body: () => T): T {
    const before = this.scope;
    this.scope = scope;
    try {
      return body();
    } finally {
      this.scope = before;
    }
  }

  /** The same for work that runs aside of the program's own calls: it is no part of training, whenever it is issued. */
  aside<T>(scope: string, body: () => T): T {
    const counted = this.#counts;
    this.#counts = false;
    try {
      return this.within(scope, body);
    } finally {
      this.#counts = counted;
    }
  }

  noteOp(event: Event, op: OpName | "upload", args?: OpArgs<OpName>): void {
    if (this.isOn)
      this.#note(event, { op, args, scope: this.scope, awaited: undefined, reach: undefined, counts: this.#counts });
  }

  noteWait(event: Event, awaited: Event): void {
    if (!this.isOn) return;
    const reach = this.#reachOf(awaited);
    const steps = this.#reaches[event.queue];
    if (steps.length >= 2 * reachStepsKept) steps.splice(0, steps.length - reachStepsKept);
    steps.push({ sequence: event.sequence, reach: mergeReach(steps.at(-1)?.reach, reach) });
    this.#note(event, { op: undefined, args: undefined, scope: this.scope, awaited, reach, counts: this.#counts });
  }

  /** The program waits for `event` from now on. @returns what tells that it has waited */
  noteProgramWait(event: Event): () => void {
    if (!this.isOn) return () => {};
    const start = this.now();
    const over = this.#overlap?.programWaits(start, this.#reachOf(event));
    return () => {
      const end = this.now();
      over?.(end);
      if (this.#sink) this.#program.push({ what: event, start, end });
    };
  }

  /** A moment in the program's order. */
  remark(what: string): void {
    if (!this.#sink) return;
    const now = this.now();
    this.#program.push({ what, start: now, end: now });
  }

  /** Something that the program began at `start` (see now) and ends now. */
  noteProgram(what: string, start: number): void {
    if (this.#sink) this.#program.push({ what, start, end: this.now() });
  }

  /** Joins what has been measured with the notes, and hands it on. */
  drain(): void {
    if (!this.isOn) return;
    this.#sinceDrain = 0;
    const spans: QueueSpan[] = [];
    for (const queue of queueNames) this.#drainQueue(queue, spans);
    this.#overlap?.settle((queue) => this.#notes[queue].length > 0);
    const program = this.#program;
    this.#program = [];
    if (spans.length > 0) this.#sink?.queues(spans);
    if (program.length > 0) this.#sink?.program(program);
  }

  #switch(): void {
    for (const queue of queueNames) {
      this.#measure(queue, this.isOn);
      if (!this.isOn) this.#notes[queue].clear();
    }
  }

  #note(event: Event, note: Note): void {
    this.#notes[event.queue].push(event.sequence, note);
    if (++this.#sinceDrain >= notesHeld) this.drain();
  }

  #drainQueue(queue: QueueName, into: QueueSpan[]): void {
    const measured = this.#measure(queue, true);
    const notes = this.#notes[queue];
    for (let i = 0; i < measured.length; i += 3) {
      const [sequence, start, end] = [measured[i]!, measured[i + 1]!, measured[i + 2]!];
      const note = notes.at(sequence);
      if (!note) continue; // issued before the timeline was on
      const { op, args, scope, awaited, reach, counts } = note;
      this.#overlap?.add({ queue, sequence, start, end, reach, counts });
      if (this.#sink) into.push({ queue, sequence, start, end, op, args, scope, awaited });
    }
    if (measured.length > 0) notes.dropUpTo(measured.at(-3)!);
  }

  /** What an event depends on: its own queue up to it, and what that queue had waited for before. */
  #reachOf({ queue, sequence }: Event): Reach {
    const steps = this.#reaches[queue];
    let [before, after] = [-1, steps.length]; // binary search for the last step that is not later
    while (after - before > 1) {
      const middle = (before + after) >> 1;
      if (steps[middle]!.sequence <= sequence) before = middle;
      else after = middle;
    }
    const reach = mergeReach(steps[before]?.reach, undefined);
    reach[queueNames.indexOf(queue)] = sequence;
    return reach;
  }
}

/** From op `sequence` of a queue on, its ops depend on `reach`. */
interface ReachStep {
  readonly sequence: number;
  readonly reach: Reach;
}

/** An event older than so many waits of its queue has long happened. */
const reachStepsKept = 4096;

function mergeReach(a: Reach | undefined, b: Reach | undefined): Float64Array {
  const merged = new Float64Array(queueNames.length);
  for (let q = 0; q < merged.length; q++) merged[q] = Math.max(a?.[q] ?? 0, b?.[q] ?? 0);
  return merged;
}

/** The clock of the native queues. */
export const nowMicroseconds = (): number => Number(process.hrtime.bigint()) / 1000;
