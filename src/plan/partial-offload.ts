/**
 * What is offloaded in part. Partial offload (Twin-Flow, DeepSpeed's `ratio`): of n sub-groups, counted over a rank's elements in plan order, the first
 * int((1 - ratio) n) keep their optimizer states on the device and the others live in the offload tier.
 */
import type { Tier } from "../device/ledger.ts";
import type { FlatLayout } from "./layout.ts";
import type { Residences } from "./residence.ts";

/** Elements of a block of the gradient norm (contracts 17). A border between tiers is a border of blocks: so the norm's sums stay. */
export const normBlock = 4096;

/** @returns how many elements at the start of a rank's range of a flat buffer keep their states on the device */
export function deviceStatesOf(
  { optimizer }: Residences,
  ratio: number,
  flats: readonly FlatLayout[],
  subGroupElements: number,
): (flat: FlatLayout) => number {
  if (optimizer.tier === "device") return (flat) => flat.rangeElements;
  const trainable = flats.filter((flat) => flat.trainable);
  const groupsOf = (flat: FlatLayout): number => Math.ceil(flat.rangeElements / subGroupElements);
  const all = trainable.reduce((sum, flat) => sum + groupsOf(flat), 0);
  let left = Math.trunc((1 - ratio) * all);
  const kept = new Map<FlatLayout, number>();
  for (const flat of trainable) {
    const groups = Math.min(left, groupsOf(flat));
    left -= groups;
    const isAll = groups === groupsOf(flat);
    const elements = Math.floor((groups * subGroupElements) / normBlock) * normBlock;
    kept.set(flat, isAll ? flat.rangeElements : elements);
  }
  return (flat) => kept.get(flat) ?? 0;
}

/**
 * With parameters on disk the first ones, up to so many elements of a rank, stay in host memory (DeepSpeed's `max_in_cpu`).
 * @returns the tier of a flat buffer's parameters at rest
 */
export function parameterTierOf(
  { parameters }: Residences,
  hostElements: number,
  flats: readonly FlatLayout[],
): (flat: FlatLayout) => Tier {
  if (parameters.tier !== "disk") return () => parameters.tier;
  const inHost = new Set<FlatLayout>();
  let left = hostElements;
  for (const flat of flats) {
    left -= flat.rangeElements;
    if (left < 0) break;
    inHost.add(flat);
  }
  return (flat) => (inHost.has(flat) ? "host" : "disk");
}
