/**
 * The process group: collectives on ranges of flat buffers, issued on the collective queue and entered in the traffic ledger.
 * Reduce-scatter adds in fp32 in rank order and rounds once, so a result does not depend on transport or bucket size. Every
 * rank must make the same calls in the same order; a call is known to its peers by a tag made from its words.
 */
import type { Device } from "../device/device.ts";
import { type DType, dtypeBytes } from "../device/dtype.ts";
import type { Segment } from "../device/ops.ts";
import type { Event } from "../device/queue.ts";

/** What carries the calls between ranks. */
export interface Transport {
  readonly rank: number;
  readonly worldSize: number;
  /** The device's handle of the group for collectives on queues. */
  readonly handle: number;
  /** Every rank's payload, in rank order. */
  exchange(tag: number, payload: Uint8Array): Promise<Uint8Array[]>;
  /** The same in an order of its own: neither waits for the other. */
  exchangeAside(tag: number, payload: Uint8Array): Promise<Uint8Array[]>;
  dispose(): void;
}

/** Ranks that tell each other a few numbers. */
export interface Exchanger {
  readonly rank: number;
  /** A few numbers from every rank, in rank order. Does not wait for any queue. */
  exchange(values: Float64Array, words: string): Promise<Float64Array[]>;
}

export interface ReduceOptions {
  readonly srcType: DType;
  readonly dstType: DType;
  /** Multiplies the sum in fp32, before its one rounding. */
  readonly factor: number;
  /** Add to what the destination holds. */
  readonly accumulate: boolean;
}

const bytesOf = (values: Float64Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

/** Where one rank stands for all, they have said the same thing, and it is read once. */
function numbersOf(all: readonly Uint8Array[]): Float64Array[] {
  const read = new Map<Uint8Array, Float64Array>();
  return all.map((bytes) => {
    const known = read.get(bytes) ?? new Float64Array(bytes.slice().buffer);
    read.set(bytes, known);
    return known;
  });
}

const countOf = (segments: readonly Segment[]): number => segments.reduce((sum, s) => sum + s.count, 0);

export class ProcessGroup implements Exchanger {
  readonly rank: number;
  readonly worldSize: number;
  /**
   * For work that runs aside of the program's own calls (saving a checkpoint), which come at other moments on each rank. What is told
   * there stands in no step's traffic.
   */
  readonly aside: Exchanger;
  readonly #transport: Transport;
  readonly #device: Device;
  readonly #words = new Map<number, string>();
  readonly #meeting: number;
  #step = 0;

  constructor(device: Device, transport: Transport) {
    this.#device = device;
    this.#transport = transport;
    this.rank = transport.rank;
    this.worldSize = transport.worldSize;
    this.aside = { rank: this.rank, exchange: (values, words) => this.#exchangeAside(values, words) };
    // Known to every rank from the start: it is named where others meet and this rank does not.
    this.#meeting = this.#tag("before a checkpoint (every rank saves it, or none)");
    device.nameTags((tag) => this.describeTag(tag));
  }

  /** For messages: which step the calls belong to from now on. */
  beginStep(step: number): void {
    this.#step = step;
  }

  /** The call of a tag, in words. */
  describeTag(tag: number): string {
    return `${this.#words.get(tag) ?? `call ${tag}`} in step ${this.#step}`;
  }

  /** own (+)= factor * sum over ranks of whole[own range]. Sends the ranges this rank does not own, receives its own. */
  reduceScatter(segments: readonly Segment[], options: ReduceOptions, words: string): Event {
    const elements = countOf(segments) * (this.worldSize - 1);
    this.#device.traffic.add("reduceScatter", elements, elements, dtypeBytes[options.srcType], this.#calls);
    const tag = this.#tag(`reduce-scatter of ${words}`);
    return this.#device.issue("collective", "reduceScatter", {
      group: this.#transport.handle,
      tag,
      ...options,
      segments,
    });
  }

  /** Every rank's own range into everybody's whole. Sends the own part to each of the others. */
  allGather(segments: readonly Segment[], dtype: DType, words: string): Event {
    const elements = countOf(segments) * (this.worldSize - 1);
    this.#device.traffic.add("allGather", elements, elements, dtypeBytes[dtype], this.#calls);
    const tag = this.#tag(`all-gather of ${words}`);
    return this.#device.issue("collective", "allGather", { group: this.#transport.handle, tag, dtype, segments });
  }

  async exchange(values: Float64Array, words: string): Promise<Float64Array[]> {
    const elements = values.length * (this.worldSize - 1);
    this.#device.traffic.add("control", elements, elements, 8, this.#calls);
    const started = this.#device.timeline.now();
    const all = await this.#transport.exchange(this.#tag(`exchange of ${words}`), bytesOf(values));
    this.#device.timeline.noteProgram(`exchange of ${words}`, started);
    return numbersOf(all);
  }

  async #exchangeAside(values: Float64Array, words: string): Promise<Float64Array[]> {
    return numbersOf(await this.#transport.exchangeAside(this.#tag(`exchange of ${words}`), bytesOf(values)));
  }

  /**
   * Waits until every rank is about to save. It stands among the collectives, so a rank that trains on instead is found out by its
   * next one, and not at the deadline.
   */
  async meet(): Promise<void> {
    await this.#device.reachedAside(
      this.#device.issue("collective", "barrier", { group: this.#transport.handle, tag: this.#meeting }),
    );
  }

  dispose(): void {
    this.#transport.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** A world of one calls nobody. */
  get #calls(): number {
    return this.worldSize > 1 ? 1 : 0;
  }

  /** A number that is the same on every rank that means the same call (FNV-1a of the words, 31 bits). */
  #tag(words: string): number {
    let hash = 0x811c9dc5;
    for (let i = 0; i < words.length; i++) hash = Math.imul(hash ^ words.charCodeAt(i), 0x01000193);
    const tag = (hash >>> 1) & 0x7fffffff;
    this.#words.set(tag, words);
    return tag;
  }
}
