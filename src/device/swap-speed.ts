/** How fast folders are as a disk tier: what `shunya bench disk` sweeps, and by what several drives share the blocks. */
import { encode } from "./encode.ts";
import { deviceFailure } from "./failure.ts";
import { loadNative } from "./native.ts";
import type { Span } from "./ops.ts";
import { type AioSettings, Swap } from "./swap.ts";

/** Bytes of a record, unless there is less room: a step reads and writes sub-groups, not blocks. */
export const usualRecordBytes = 32 * 2 ** 20;

export const passNames = ["write", "read", "mixed"] as const;
export type PassName = (typeof passNames)[number];

/** One way to use the drives, measured beside others. */
export interface SpeedCase {
  readonly folders: readonly string[];
  readonly shares?: readonly number[];
  readonly settings: AioSettings;
}

export interface SpeedOptions {
  readonly cases: readonly SpeedCase[];
  /** A multiple of 4096. */
  readonly recordBytes: number;
  /** Of each case, an even number. */
  readonly records: number;
}

/** Swaps of all cases at once, so that their passes can alternate; queues and memory are shared. */
export class SwapSpeed implements Disposable {
  readonly #native = loadNative();
  readonly #options: SpeedOptions;
  readonly #swaps: Swap[] = [];
  readonly #queues: Readonly<Record<"read" | "write", number>>;
  readonly #memory: number;
  #bytesWritten = 0;

  /** @throws UsageError where a folder cannot be used or has no room */
  constructor(options: SpeedOptions) {
    this.#options = options;
    this.#queues = { read: this.#native.createQueue(1), write: this.#native.createQueue(1) };
    this.#memory = this.#native.createRegion(2 * options.recordBytes);
    // Pages that exist, and bytes that no drive can make smaller.
    const noise = new Uint8Array(new Float64Array(options.recordBytes / 8).map(() => Math.random()).buffer);
    for (const offset of [0, options.recordBytes]) this.#native.writeRegion(this.#memory, offset, noise);
    const capacityBytes = options.records * options.recordBytes;
    try {
      for (const { settings, ...place } of options.cases)
        this.#swaps.push(new Swap({ ...place, ...settings, capacityBytes, rank: 0, verify: true }));
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  get bytesWritten(): number {
    return this.#bytesWritten;
  }

  get notices(): readonly string[] {
    return [...new Set(this.#swaps.flatMap((swap) => swap.notices))];
  }

  /**
   * Bytes per second of a pass over a case's records; `mixed` reads one half while it writes the other, and counts both. What was
   * never written cannot be read: a case's first pass is a write.
   */
  async pass(index: number, name: PassName): Promise<number> {
    const { records, recordBytes } = this.#options;
    const swap = this.#swaps[index]!;
    const half = records / 2;
    const start = performance.now();
    if (name === "mixed") {
      // Halves, because a record that is being written cannot be read.
      await Promise.all([this.#move(swap, "read", 0, half), this.#move(swap, "write", half, half)]);
      await Promise.all([this.#move(swap, "read", half, half), this.#move(swap, "write", 0, half)]);
    } else await this.#move(swap, name, 0, records);
    const moved = (name === "mixed" ? 2 : 1) * records * recordBytes;
    return moved / ((performance.now() - start) / 1000);
  }

  async #move(swap: Swap, direction: "read" | "write", first: number, count: number): Promise<void> {
    const bytes = this.#options.recordBytes;
    const queue = this.#queues[direction];
    const memory: Span = { region: this.#memory, offset: direction === "read" ? 0 : bytes };
    if (direction === "write") this.#bytesWritten += count * bytes;
    let sequence = 0;
    for (let record = first; record < first + count; record++) {
      const place = { swap: swap.handle, offset: record * bytes, bytes };
      const { code, values } =
        direction === "read"
          ? encode("diskRead", { ...place, dst: memory }, null)
          : encode("diskWrite", { ...place, src: memory }, null);
      sequence = this.#native.issue(queue, code, values);
    }
    try {
      await this.#native.reached(queue, sequence);
    } catch (error) {
      throw deviceFailure(error, String);
    }
  }

  [Symbol.dispose](): void {
    for (const queue of Object.values(this.#queues)) this.#native.destroyQueue(queue);
    this.#native.closeRegion(this.#memory);
    for (const swap of this.#swaps) swap.dispose();
  }
}

export const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;

/**
 * How many of sum(shares) consecutive blocks each folder's drive should get, by the bandwidth of reading and writing at once
 * that is measured now (about a quarter of a second a folder).
 */
export async function measureShares(folders: readonly string[], settings: AioSettings): Promise<number[]> {
  if (folders.length === 1) return [1];
  const cases = folders.map((folder) => ({ folders: [folder], settings }));
  using speed = new SwapSpeed({ cases, recordBytes: usualRecordBytes, records: 2 });
  const rates = folders.map((): number[] => []);
  for (const i of folders.keys()) await speed.pass(i, "write");
  for (let round = 0; round < 3; round++)
    for (const [i, found] of rates.entries()) found.push(await speed.pass(i, "mixed"));
  return sharesOf(rates.map(median));
}

/** Whole numbers of at most 8 in the proportion of `rates`, without a common divisor. */
export function sharesOf(rates: readonly number[]): number[] {
  const fastest = Math.max(...rates);
  const shares = rates.map((rate) => Math.max(1, Math.round((8 * rate) / fastest)));
  const divisor = shares.reduce(greatestCommonDivisor);
  return shares.map((share) => share / divisor);
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}
