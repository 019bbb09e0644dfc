/**
 * How much of every transfer and update was hidden behind compute: 1 - (time compute waited for it) / (its duration).
 *
 * Compute waits while its queue runs no op and either stands in a wait for an event of another queue, or has nothing to do while the
 * program awaits an event. Such an idle time is charged to every op on which the awaited event depends (through waits of other queues
 * too), for as long as that op was running meanwhile. So a gather that waits for a copy, that waits for an update, that waits for
 * a read, charges each of them with the time in which it kept compute waiting, and no op with more than it took.
 */
import { type QueueName, queueNames } from "./queue.ts";

/** What an event depends on: of every queue (in the order of queueNames) the highest sequence. */
export type Reach = Readonly<ArrayLike<number>>;

export type OverlappedQueue = Exclude<QueueName, "compute">;
export const overlappedQueues = queueNames.filter((q): q is OverlappedQueue => q !== "compute");

export interface QueueOverlap {
  /** Duration of its ops, without its own waits for other queues. */
  readonly seconds: number;
  /** For how much of it compute waited. */
  readonly waitedSeconds: number;
}
export type OverlapTimes = Readonly<Record<OverlappedQueue, QueueOverlap>>;

/** What a queue did; microseconds. */
export interface MeasuredSpan {
  readonly queue: QueueName;
  readonly sequence: number;
  readonly start: number;
  readonly end: number;
  /** Of a wait: what the awaited event depends on; undefined for an op. */
  readonly reach: Reach | undefined;
  /** Whether its duration counts. */
  readonly counts: boolean;
}

/** Compute waited from `start` to `end` for an event with this reach. */
interface Idle {
  readonly start: number;
  end: number;
  readonly reach: Reach;
}

export class OverlapLedger {
  /** Ops that compute may still have to wait for, in order. */
  readonly #open = perQueue((): MeasuredSpan[] => []);
  /** In the order of their starts. */
  #idles: Idle[] = [];
  #programWaits: Idle[] = [];
  #gaps: { start: number; end: number }[] = [];
  /** Until when what a queue did is known. */
  readonly #known = new Map<QueueName, number>();
  #micros = perQueue(() => ({ busy: 0, waited: 0 }));

  /** The program begins to wait. @returns what tells when it has waited */
  programWaits(start: number, reach: Reach): (end: number) => void {
    const wait: Idle = { start, end: Number.POSITIVE_INFINITY, reach };
    this.#programWaits.push(wait);
    return (end) => {
      wait.end = end;
    };
  }

  /** Spans of a queue come in order. */
  add(span: MeasuredSpan): void {
    const { queue, start, end, reach } = span;
    if (queue === "compute") {
      const before = this.#known.get(queue);
      if (before !== undefined && start > before) this.#gaps.push({ start: before, end: start });
      if (reach) this.#idles.push({ start, end, reach });
    } else if (!reach && span.counts) this.#open[queue].push(span);
    this.#known.set(queue, end);
  }

  /**
   * Charges every op that ended before compute's last one: what compute waited for until then is known.
   * @param isRunning whether the queue was given something that has not been added
   */
  settle(isRunning: (queue: QueueName) => boolean): void {
    const until = this.#known.get("compute");
    if (until === undefined) return;
    for (const gap of this.#gaps.splice(0))
      for (const { start, end, reach } of this.#programWaits)
        if (start < gap.end && end > gap.start)
          this.#idles.push({ start: Math.max(start, gap.start), end: Math.min(end, gap.end), reach });
    this.#idles.sort((a, b) => a.start - b.start);
    for (const queue of overlappedQueues) this.#charge(queue, until);
    // An op that is still running began at the earliest where its queue is known to have ended.
    const unknown = overlappedQueues.map((q) => (isRunning(q) ? (this.#known.get(q) ?? 0) : until));
    const from = Math.min(until, ...unknown, ...overlappedQueues.map((q) => this.#open[q][0]?.start ?? until));
    this.#idles = this.#idles.filter((idle) => idle.end > from);
    this.#programWaits = this.#programWaits.filter((wait) => wait.end > until);
  }

  /** What was charged since the last call. */
  take(): OverlapTimes {
    const micros = this.#micros;
    this.#micros = perQueue(() => ({ busy: 0, waited: 0 }));
    return Object.fromEntries(
      overlappedQueues.map((q) => [q, { seconds: micros[q].busy / 1e6, waitedSeconds: micros[q].waited / 1e6 }]),
    ) as Record<OverlappedQueue, QueueOverlap>;
  }

  #charge(queue: OverlappedQueue, until: number): void {
    const open = this.#open[queue];
    const index = queueNames.indexOf(queue);
    let done = 0;
    let first = 0;
    for (const op of open) {
      if (op.end > until) break;
      while (first < this.#idles.length && this.#idles[first]!.end <= op.start) first++;
      this.#micros[queue].busy += op.end - op.start;
      this.#micros[queue].waited += this.#waitedFor(op, index, first);
      done++;
    }
    open.splice(0, done);
  }

  /** Idle time within an op, of waits that depended on it; where several did at once it counts once. */
  #waitedFor(op: MeasuredSpan, queueIndex: number, firstIdle: number): number {
    let waited = 0;
    let covered = op.start;
    for (let i = firstIdle; i < this.#idles.length; i++) {
      const { start, end, reach } = this.#idles[i]!;
      if (start >= op.end) break;
      if (reach[queueIndex]! < op.sequence) continue;
      const to = Math.min(end, op.end);
      waited += Math.max(0, to - Math.max(start, covered));
      covered = Math.max(covered, to);
    }
    return waited;
  }
}

const perQueue = <T>(make: () => T): Record<OverlappedQueue, T> =>
  Object.fromEntries(overlappedQueues.map((q) => [q, make()])) as Record<OverlappedQueue, T>;
