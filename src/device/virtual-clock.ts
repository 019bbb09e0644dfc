/**
 * The virtual clock of the simulated device: queues with costs instead of kernels. An op takes so long on its own; ops of different
 * queues that work with the same thing (a link in one direction, the cores of a CPU, a drive) at once share it, and each takes longer.
 * Time goes on only where the program waits for an event, as it does on a real device.
 */
import { InternalError } from "../errors/errors.ts";
import { type Event, type QueueName, queueNames } from "./queue.ts";

/** A thing that ops share, and how much of it an op would use on its own. */
export interface Use {
  readonly resource: string;
  readonly demand: number;
}

export interface OpCost {
  /** Where nothing else uses what it uses. */
  readonly seconds: number;
  readonly uses: readonly Use[];
}

/** What was given to a queue: an op with its cost, or a wait. */
type Work = { readonly cost: OpCost } | { readonly awaited: Event };

interface Item {
  readonly sequence: number;
  readonly work: Work;
  remainingMicros: number;
  /** Undefined: not begun. */
  start: number | undefined;
}

/** Below this, what is left of an op is rounding. */
const rounding = 1e-9;

export class VirtualClock {
  #now = 0;
  readonly #capacity: Readonly<Record<string, number>>;
  readonly #pending = Object.fromEntries(queueNames.map((q) => [q, new Fifo()])) as Record<QueueName, Fifo>;
  readonly #issued = Object.fromEntries(queueNames.map((q) => [q, 0])) as Record<QueueName, number>;
  /** Seconds. */
  readonly #added = Object.fromEntries(queueNames.map((q) => [q, 0])) as Record<QueueName, number>;
  readonly #completed = Object.fromEntries(queueNames.map((q) => [q, 0])) as Record<QueueName, number>;
  readonly #measured = Object.fromEntries(queueNames.map((q) => [q, [] as number[]])) as Record<QueueName, number[]>;
  readonly #isMeasured = new Set<QueueName>();

  /** @param capacity of a resource, in the unit of the demands; 1 where it is left out */
  constructor(capacity: Readonly<Record<string, number>> = {}) {
    this.#capacity = capacity;
  }

  /** Microseconds. */
  get now(): number {
    return this.#now;
  }

  /** @returns the sequence number on that queue @throws InternalError for a cost that is no time: it would never end */
  issue(queue: QueueName, work: Work): number {
    const seconds = "cost" in work ? work.cost.seconds : 0;
    if (!(seconds >= 0 && seconds < Number.POSITIVE_INFINITY))
      throw new InternalError(`an op of the ${queue} queue costs ${seconds} s`);
    const sequence = ++this.#issued[queue];
    const added = seconds > 0 ? this.#added[queue] : 0;
    this.#added[queue] -= added;
    this.#pending[queue].push({ sequence, work, remainingMicros: (seconds + added) * 1e6, start: undefined });
    return sequence;
  }

  /** Lets time go on until `event` has happened. @throws InternalError where it cannot */
  runUntil({ queue, sequence }: Event): void {
    this.#passWaits();
    while (this.#completed[queue] < sequence)
      if (!this.#goOn())
        throw new InternalError(`the ${queue} queue waits for what never happens, or for op ${sequence} of it`);
  }

  /** The next op of `queue` that takes time takes so much longer: for what is not run, but known to take so long. */
  lengthenNext(queue: QueueName, seconds: number): void {
    this.#added[queue] += seconds;
  }

  /** As a native queue: [sequence, start, end] triples since the last call. */
  measure(queue: QueueName, enabled: boolean): Float64Array {
    const measured = Float64Array.from(this.#measured[queue]);
    this.#measured[queue] = [];
    if (enabled) this.#isMeasured.add(queue);
    else this.#isMeasured.delete(queue);
    return measured;
  }

  /** To the next moment at which an op ends, with the waits that then pass. @returns whether anything is at work */
  #goOn(): boolean {
    const active = queueNames.flatMap((queue) => this.#active(queue) ?? []);
    if (active.length === 0) return false;
    const demands: Record<string, number> = {};
    for (const { cost } of active)
      for (const { resource, demand } of cost.uses) demands[resource] = (demands[resource] ?? 0) + demand;
    const rates = active.map(({ cost }) => this.#rate(cost, demands));
    const step = Math.min(...active.map(({ item }, i) => item.remainingMicros / rates[i]!));
    this.#now += step;
    for (const [i, { queue, item }] of active.entries()) {
      item.remainingMicros -= step * rates[i]!;
      if (item.remainingMicros <= rounding) this.#complete(queue);
    }
    this.#passWaits();
    return true;
  }

  /** The share of its own speed that an op reaches beside others. */
  #rate({ uses }: OpCost, demands: Readonly<Record<string, number>>): number {
    return Math.min(1, ...uses.map(({ resource }) => (this.#capacity[resource] ?? 1) / demands[resource]!));
  }

  /** The op at the head of a queue. */
  #active(queue: QueueName): { queue: QueueName; item: Item; cost: OpCost } | undefined {
    const item = this.#pending[queue].head;
    if (!item || !("cost" in item.work)) return undefined;
    return { queue, item, cost: item.work.cost };
  }

  /** What comes to the head of its queue begins; waits for what has happened, and ops that take no time, pass: one may free another's. */
  #passWaits(): void {
    let passed = true;
    while (passed) {
      passed = false;
      for (const queue of queueNames) {
        let item = this.#pending[queue].head;
        while (item && this.#isOver(item)) {
          this.#complete(queue);
          passed = true;
          item = this.#pending[queue].head;
        }
      }
    }
  }

  #isOver(item: Item): boolean {
    item.start ??= this.#now;
    if ("cost" in item.work) return item.remainingMicros <= 0;
    const { queue, sequence } = item.work.awaited;
    return this.#completed[queue] >= sequence;
  }

  #complete(queue: QueueName): void {
    const { sequence, start } = this.#pending[queue].shift();
    this.#completed[queue] = sequence;
    if (this.#isMeasured.has(queue)) this.#measured[queue].push(sequence, start ?? this.#now, this.#now);
  }
}

/** First in, first out, without moving what is left. */
class Fifo {
  #items: Item[] = [];
  #first = 0;

  get head(): Item | undefined {
    return this.#items[this.#first];
  }

  push(item: Item): void {
    this.#items.push(item);
  }

  shift(): Item {
    const item = this.#items[this.#first++]!;
    if (this.#first > 1024) {
      this.#items = this.#items.slice(this.#first);
      this.#first = 0;
    }
    return item;
  }
}
