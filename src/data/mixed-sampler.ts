/** Samples from several sources by weight: which row of which source is sample number s, found by calculation. */

import type { RowPlaces } from "./row-places.ts";
import { RowSampler, type Sampler, type SamplerOptions } from "./sampler.ts";

/** Weights are rounded to this share of all samples; every source has one slot at least. */
const slotCount = 10_000;

export interface WeighedSource {
  readonly name: string;
  /** Above 0. */
  readonly weight: number;
  readonly rows: RowPlaces;
}

export interface MixOptions extends SamplerOptions {
  /** Their places follow each other in this order. */
  readonly sources: readonly WeighedSource[];
}

interface Part {
  readonly name: string;
  readonly firstPlace: number;
  readonly sampler: RowSampler;
  /** Slots in a cycle. */
  readonly quota: number;
}

/**
 * The sources take turns in a cycle that spreads each one evenly and is the same for every seed; so any stretch of samples has the
 * weights, up to one sample. Each source has rows and epochs of its own, in an order of its own: one that is used up begins anew
 * while others go on.
 */
export class MixedSampler implements Sampler {
  /** Rows of all sources. */
  readonly rowCount: number;
  readonly #parts: readonly Part[];
  /** Of each slot of a cycle: the source, and how many slots before it are the same source's. */
  readonly #cycle: readonly { readonly part: number; readonly before: number }[];

  constructor({ sources, seed, shuffle }: MixOptions) {
    const quotas = quotasOf(sources.map(({ weight }) => weight));
    let firstPlace = 0;
    this.#parts = sources.map(({ name, rows }, i) => {
      // Sources of equal size have orders of their own.
      const ownSeed = (seed + i * 0x9e37_79b9_7f4a) % 2 ** 53;
      const sampler = new RowSampler(rows, { seed: ownSeed, shuffle });
      const part = { name, firstPlace, sampler, quota: quotas[i]! };
      firstPlace += rows.places;
      return part;
    });
    this.rowCount = this.#parts.reduce((sum, { sampler }) => sum + sampler.rowCount, 0);
    this.#cycle = cycleOf(quotas);
  }

  /** Each source's share of the samples, and how often its rows are all seen in so many samples. */
  shares(samples: number): { name: string; share: number; epochs: number }[] {
    return this.#parts.map(({ name, quota, sampler }) => {
      const share = quota / this.#cycle.length;
      return { name, share, epochs: (share * samples) / sampler.rowCount };
    });
  }

  place(sample: number): number {
    const cycle = Math.floor(sample / this.#cycle.length);
    const slot = this.#cycle[sample % this.#cycle.length]!;
    const { firstPlace, sampler, quota } = this.#parts[slot.part]!;
    return firstPlace + sampler.place(cycle * quota + slot.before);
  }
}

/** Whole slots by the largest remainder, in lowest terms: 0.7 and 0.3 are 7 and 3. */
function quotasOf(weights: readonly number[]): number[] {
  const sum = weights.reduce((a, b) => a + b, 0);
  const exact = weights.map((weight) => (weight / sum) * slotCount);
  const quotas = exact.map((slots) => Math.max(1, Math.floor(slots)));
  const byRemainder = exact.map((slots, i) => ({ i, remainder: slots - quotas[i]! }));
  byRemainder.sort((a, b) => b.remainder - a.remainder || a.i - b.i);
  const missing = slotCount - quotas.reduce((a, b) => a + b, 0);
  for (let n = 0; n < missing; n++) quotas[byRemainder[n % quotas.length]!.i]!++;
  const divisor = quotas.reduce(greatestDivisor);
  return quotas.map((quota) => quota / divisor);
}

const greatestDivisor = (a: number, b: number): number => (b === 0 ? a : greatestDivisor(b, a % b));

/** Each slot goes to the source that is furthest behind its share (smooth weighted round robin). */
function cycleOf(quotas: readonly number[]): { part: number; before: number }[] {
  const total = quotas.reduce((a, b) => a + b, 0);
  const credit = quotas.map(() => 0);
  const taken = quotas.map(() => 0);
  return Array.from({ length: total }, () => {
    let part = 0;
    for (const [i, quota] of quotas.entries()) {
      credit[i]! += quota;
      if (credit[i]! > credit[part]!) part = i;
    }
    credit[part]! -= total;
    return { part, before: taken[part]!++ };
  });
}
