/** How fast folders are as a disk tier: what `shunya bench disk` sweeps, and by what several drives share the blocks. */
import { encode } from "./encode.ts";
import { deviceFailure } from "./failure.ts";
import { loadNative } from "./native.ts";
import type { Span } from "./ops.ts";
import { type AioSettings, Swap } from "./swap.ts";

/** Bytes of a record, as the disk tier has them about: a step reads and writes sub-groups, not blocks. */
const recordBytes = 32 * 2 ** 20;

export const passNames = ["write", "read", "mixed"] as const;
export type PassName = (typeof passNames)[number];

export interface SwapSpeedOptions extends AioSettings {
  readonly folders: readonly string[];
  /** At least two records of 32 MiB; rounded up to an even number of them. */
  readonly bytes: number;
}

/** One way to ask the drives. Its first pass must be a write: what was never written cannot be read. */
export class SwapSpeed implements Disposable {
  readonly settings: AioSettings;
  readonly #native = loadNative();
  readonly #swap: Swap;
  readonly #records: number;
  readonly #queues: Readonly<Record<"read" | "write", number>>;
  readonly #memory: number;

  constructor({ folders, bytes, ...settings }: SwapSpeedOptions) {
    this.settings = settings;
    this.#records = 2 * Math.max(1, Math.ceil(bytes / recordBytes / 2));
    this.#swap = new Swap({ folders, capacityBytes: this.#records * recordBytes, rank: 0, verify: true, ...settings });
    this.#queues = { read: this.#native.createQueue(1), write: this.#native.createQueue(1) };
    this.#memory = this.#native.createRegion(2 * recordBytes);
    // Pages that exist, and bytes that no drive can make smaller.
    const bytesOf = new Float64Array(recordBytes / 8).map(() => Math.random());
    for (const offset of [0, recordBytes])
      this.#native.writeRegion(this.#memory, offset, new Uint8Array(bytesOf.buffer));
  }

  get notices(): readonly string[] {
    return this.#swap.notices;
  }

  /** Bytes per second of a pass over everything; `mixed` reads one half while it writes the other, and counts both. */
  async pass(name: PassName): Promise<number> {
    const half = this.#records / 2;
    const start = performance.now();
    if (name === "mixed") {
      // Never in step by luck: a record that is being written cannot be read.
      await Promise.all([this.#move("read", 0, half), this.#move("write", half, half)]);
      await Promise.all([this.#move("read", half, half), this.#move("write", 0, half)]);
    } else await this.#move(name, 0, this.#records);
    const moved = (name === "mixed" ? 2 : 1) * this.#records * recordBytes;
    return moved / ((performance.now() - start) / 1000);
  }

  async #move(direction: "read" | "write", first: number, count: number): Promise<void> {
    const queue = this.#queues[direction];
    const memory: Span = { region: this.#memory, offset: direction === "read" ? 0 : recordBytes };
    let sequence = 0;
    for (let record = first; record < first + count; record++) {
      const place = { swap: this.#swap.handle, offset: record * recordBytes, bytes: recordBytes };
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
    this.#swap.dispose();
  }
}

export const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;

/**
 * How many of sum(shares) blocks each folder's drive should get, by the bandwidth of mixed reads and writes measured now (about a
 * quarter of a second a folder). The fastest gets at most 8.
 */
export async function measureShares(folders: readonly string[], settings: AioSettings): Promise<number[]> {
  if (folders.length === 1) return [1];
  const rates: number[] = [];
  for (const folder of folders) {
    using speed = new SwapSpeed({ folders: [folder], bytes: 2 * recordBytes, ...settings });
    await speed.pass("write");
    const found: number[] = [];
    for (let round = 0; round < 3; round++) found.push(await speed.pass("mixed"));
    rates.push(median(found));
  }
  return sharesOf(rates);
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
