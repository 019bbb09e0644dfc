/** The recommendation: the fewest offloads, then the smallest stage, that fits, with the largest micro-batch. */
import { type Placement, placements } from "../plan/placement.ts";
import type { Estimate, EstimateOf } from "./estimate.ts";
import { type RankRoom, shortagesOf } from "./fit.ts";
import type { BatchSplit } from "./settings.ts";

export interface Weighed {
  readonly placement: Placement;
  readonly estimate: Estimate;
  readonly fits: boolean;
}

export interface Recommendation {
  readonly placement: Placement;
  readonly batch: BatchSplit;
  readonly estimate: Estimate;
  /** At the least micro-batch, in the order of trial, up to the recommended one. */
  readonly tried: readonly Weighed[];
}

/** How a step's sequences may be divided. */
export interface BatchChoice {
  /** The least first. */
  readonly splits: readonly BatchSplit[];
}

/** More sequences than that in a micro-batch gain nothing. */
const mostSequences = 256;

/** @param perRank sequences of a rank in a step; undefined: as many as fit */
export function batchChoice(perRank: number | undefined): BatchChoice {
  if (perRank === undefined)
    return {
      splits: Array.from({ length: mostSequences }, (_, i) => ({ microBatch: i + 1, gradientAccumulation: 1 })),
    };
  return {
    splits: divisorsOf(perRank).map((microBatch) => ({ microBatch, gradientAccumulation: perRank / microBatch })),
  };
}

/** In ascending order. */
function divisorsOf(n: number): number[] {
  const small: number[] = [];
  for (let i = 1; i * i <= n; i++) if (n % i === 0) small.push(i);
  const large = small.map((i) => n / i).reverse();
  return [...small, ...large.filter((i) => i !== small.at(-1))];
}

/** @param among in the order of trial @returns undefined where nothing fits, and then all that was tried */
export async function recommend(
  estimateOf: EstimateOf,
  room: RankRoom,
  { splits }: BatchChoice,
  among: readonly Placement[] = placements(),
): Promise<Recommendation | { readonly tried: readonly Weighed[] }> {
  const tried: Weighed[] = [];
  for (const placement of among) {
    const estimate = await estimateOf(placement, splits[0]!);
    if (!estimate) continue;
    const fits = shortagesOf(estimate, room).length === 0;
    tried.push({ placement, estimate, fits });
    if (!fits) continue;
    const largest = await largestThatFits(estimateOf, room, placement, splits);
    return { placement, tried, ...(largest ?? { batch: splits[0]!, estimate }) };
  }
  return { tried };
}

/** The last of `splits` that fits; more sequences never take less memory. Undefined where the first does not. */
export async function largestThatFits(
  estimateOf: EstimateOf,
  room: RankRoom,
  placement: Placement,
  splits: readonly BatchSplit[],
): Promise<{ readonly batch: BatchSplit; readonly estimate: Estimate } | undefined> {
  const at = async (index: number) => {
    const batch = splits[index]!;
    const estimate = await estimateOf(placement, batch);
    return estimate && shortagesOf(estimate, room).length === 0 ? { batch, estimate } : undefined;
  };
  let found = await at(0);
  if (!found) return undefined;
  // Doubles while it fits, then halves what is left: most jobs take a handful of sequences.
  let [fitting, failing] = [0, 1];
  while (failing < splits.length) {
    const next = await at(failing);
    if (!next) break;
    [found, fitting, failing] = [next, failing, 2 * failing + 1];
  }
  failing = Math.min(failing, splits.length);
  while (failing - fitting > 1) {
    const middle = (fitting + failing) >> 1;
    const next = await at(middle);
    if (next) [found, fitting] = [next, middle];
    else failing = middle;
  }
  return found;
}
