/** What tests of the swap share: a swap on small files, memory for its ops, and a model of which pieces it holds. */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { encode } from "../../src/device/encode.ts";
import { loadNative, type NativeFailure, type NativeSwapOptions, type SwapFault } from "../../src/device/native.ts";

const native = loadNative();
export const sector = 4096;
const memoryBytes = 8 << 20;

/** Folders and swaps of a test file. */
export class SwapBench {
  readonly folder: string;
  readonly memory = native.createRegion(memoryBytes);
  readonly #queues = new Set<number>();
  #names = 0;

  /** @param parent where the files lie: the file system decides whether I/O is direct */
  constructor(parent = tmpdir()) {
    this.folder = mkdtempSync(join(parent, "shunya-swap-test-"));
  }

  queue(): number {
    const queue = native.createQueue(1);
    this.#queues.add(queue);
    return queue;
  }

  closeQueue(queue: number): void {
    this.#queues.delete(queue);
    native.destroyQueue(queue);
  }

  open(options: Partial<NativeSwapOptions> = {}): TestSwap {
    const shares = options.shares ?? [1];
    const name = this.#names++;
    const paths = shares.map((_, i) => join(this.folder, `${name}-${i}.swap`));
    const usual = { capacityBytes: 1 << 20, blockBytes: 1 << 16, requestsInFlight: 3, verify: true, direct: true };
    return new TestSwap(this, { ...usual, rank: 2, paths, shares, ...options });
  }

  close(): void {
    for (const queue of this.#queues) native.destroyQueue(queue);
    native.closeRegion(this.memory);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Reads go through the upper half of the memory and writes through the lower one, so that neither sees the other's bytes. */
export class TestSwap {
  readonly paths: readonly string[];
  readonly handle: number;
  readonly direct: readonly boolean[];
  readonly #bench: SwapBench;
  readQueue: number;
  writeQueue: number;

  constructor(bench: SwapBench, options: NativeSwapOptions) {
    this.#bench = bench;
    this.paths = options.paths;
    const made = native.createSwap(options);
    this.handle = made.swap;
    this.direct = made.direct;
    this.readQueue = bench.queue();
    this.writeQueue = bench.queue();
  }

  issueRead(offset: number, bytes: number, at = memoryBytes / 2): number {
    const dst = { region: this.#bench.memory, offset: at };
    const { code, values } = encode("diskRead", { swap: this.handle, offset, bytes, dst }, null);
    return native.issue(this.readQueue, code, values);
  }

  issueWrite(offset: number, bytes: number, at = 0): number {
    const src = { region: this.#bench.memory, offset: at };
    const { code, values } = encode("diskWrite", { swap: this.handle, offset, bytes, src }, null);
    return native.issue(this.writeQueue, code, values);
  }

  async read(offset: number, bytes: number): Promise<Uint8Array> {
    native.writeRegion(this.#bench.memory, memoryBytes / 2, new Uint8Array(bytes));
    await native.reached(this.readQueue, this.issueRead(offset, bytes));
    const into = new Uint8Array(bytes);
    native.readRegion(this.#bench.memory, memoryBytes / 2, into);
    return into;
  }

  async write(offset: number, from: Uint8Array): Promise<void> {
    native.writeRegion(this.#bench.memory, 0, from);
    await native.reached(this.writeQueue, this.issueWrite(offset, from.length));
  }

  /** Writes random bytes and returns them. */
  async writeNoise(offset: number, bytes: number): Promise<Uint8Array> {
    const noise = randomBytes(bytes);
    await this.write(offset, noise);
    return noise;
  }

  inject(fault: Pick<SwapFault, "operation" | "kind"> & Partial<SwapFault>): void {
    native.injectSwapFault({ swap: this.handle, afterOps: 0, delayMs: 0, ...fault });
  }

  /** After a failure a queue does nothing more. */
  renewQueues(): void {
    this.readQueue = this.#bench.queue();
    this.writeQueue = this.#bench.queue();
  }

  destroy(): void {
    native.destroySwap({ swap: this.handle });
  }
}

export async function failureOf(
  promise: Promise<unknown>,
): Promise<NativeFailure & { place: Record<string, string | number> }> {
  return promise.then(
    () => expect.fail("resolved; wanted a failure"),
    (error: NativeFailure) => Object.assign(error, { place: JSON.parse(error.details) }),
  );
}

/** Plain words of the rule of records: what was written, in pieces cut at block borders, until something overlaps it. */
export class RecordModel {
  readonly bytes: Uint8Array;
  readonly #blockBytes: number;
  #pieces: { offset: number; end: number }[] = [];

  constructor(capacityBytes: number, blockBytes: number) {
    this.bytes = new Uint8Array(capacityBytes);
    this.#blockBytes = blockBytes;
  }

  write(offset: number, data: Uint8Array): void {
    const end = offset + data.length;
    this.bytes.set(data, offset);
    this.#pieces = this.#pieces.filter((piece) => piece.end <= offset || piece.offset >= end);
    this.#pieces.push(...this.#cut(offset, end));
  }

  canRead(offset: number, bytes: number): boolean {
    return this.#cut(offset, offset + bytes).every((wanted) =>
      this.#pieces.some((piece) => piece.offset === wanted.offset && piece.end === wanted.end),
    );
  }

  #cut(offset: number, end: number): { offset: number; end: number }[] {
    const cuts = [offset];
    for (let block = Math.floor(offset / this.#blockBytes) + 1; block * this.#blockBytes < end; block++)
      cuts.push(block * this.#blockBytes);
    return cuts.map((cut, i) => ({ offset: cut, end: cuts[i + 1] ?? end }));
  }
}
