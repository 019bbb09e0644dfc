/** Bucket, look-ahead and other sizes in elements: as written in the configuration, or derived from the model (contracts 12). */
import type { ResolvedConfig, SizesConfig } from "../config/types.ts";
import { UsageError } from "../errors/errors.ts";
import type { ModelDescription } from "../nn/describe.ts";
import { elementsOf } from "../tensor/tensor.ts";
import type { FlatLayout, UnitLayout } from "./layout.ts";
import { normBlock } from "./partial-offload.ts";
import type { Split } from "./residence.ts";

export interface PlannedSize {
  readonly elements: number;
  /** "written", or how it was derived. */
  readonly why: string;
}

export interface PlannedSizes {
  readonly reduceBucket: PlannedSize;
  readonly allgatherBucket: PlannedSize;
  readonly prefetch: PlannedSize;
  readonly liveParameters: PlannedSize;
  readonly reuseDistance: PlannedSize;
  readonly subGroup: PlannedSize;
  readonly persistence: PlannedSize;
}

/** Tensors of at most so many elements are kept gathered where parameters are sharded (contracts 12). */
export function persistenceThreshold(sizes: SizesConfig, model: ModelDescription): PlannedSize {
  const written = sizes.paramPersistenceThreshold;
  return written === undefined
    ? { elements: 10 * hiddenSize(model), why: "ten times the model's width" }
    : { elements: written, why: "written" };
}

/** The smallest size of a one-dimensional parameter (a norm's weight has the model's width), or of any dimension. */
function hiddenSize(model: ModelDescription): number {
  const shapes = model.units.flatMap((u) => u.parameters.map((p) => p.shape));
  const vectors = shapes.filter((s) => s.length === 1);
  return Math.min(...(vectors.length > 0 ? vectors : shapes).map((s) => elementsOf(s.slice(-1))));
}

/** With a ratio there are at least so many sub-groups. */
const leastSubGroups = 10;

const unitElements = (unit: UnitLayout, of: (flat: FlatLayout) => boolean): number =>
  unit.flats.filter(of).reduce((sum, f) => sum + f.paddedElements, 0);

/** @param split of the optimizer states */
export function planSizes(
  { sizes, worldSize, offloadRatio }: Pick<ResolvedConfig, "sizes" | "worldSize" | "offloadRatio">,
  split: Split,
  persistence: PlannedSize,
  units: readonly UnitLayout[],
): PlannedSizes {
  const all = units.reduce((sum, u) => sum + unitElements(u, () => true), 0);
  const largest = Math.max(...units.map((u) => unitElements(u, () => true)));
  const isTrained = (f: FlatLayout): boolean => f.trainable;
  const trained = units.reduce((sum, u) => sum + unitElements(u, isTrained), 0);
  const largestTrained = Math.max(...units.map((u) => unitElements(u, isTrained)));
  // Gradients of adapters are so small that a reduction for each unit would be all waiting.
  const reduced =
    largestTrained === largest
      ? { elements: largest, why: "the largest unit" }
      : {
          elements: Math.max(largestTrained, Math.min(trained, 2 ** 20)),
          why: "largest unit's trained part, or 2^20",
        };
  const largestGathered = Math.max(...units.map((u) => unitElements(u, (f) => !f.persistent)));
  const pick = (written: number | undefined, derived: number, why: string): PlannedSize =>
    written === undefined ? { elements: derived, why } : { elements: Math.min(written, all), why: "written" };
  const prefetch = pick(sizes.prefetchBucketSize, largestGathered, "one unit");
  const live = largestGathered + prefetch.elements;
  const owners = split === "shard" ? worldSize : 1;
  const quarter = Math.max(2 ** 20, Math.ceil(largestTrained / owners / 4));
  const tenth = Math.max(normBlock, Math.floor(trained / owners / leastSubGroups / normBlock) * normBlock);
  const subGroup =
    offloadRatio < 1 && tenth < quarter
      ? pick(sizes.subGroupSize, tenth, "a tenth of a rank's, for the ratio")
      : pick(sizes.subGroupSize, quarter, `largest ${split === "shard" ? "shard" : "unit"} / 4, at least 2^20`);
  return {
    reduceBucket: pick(sizes.reduceBucketSize, reduced.elements, reduced.why),
    allgatherBucket: pick(sizes.allgatherBucketSize, largest, "the largest unit"),
    prefetch,
    liveParameters: pick(sizes.maxLiveParameters, live, "the largest unit and the look-ahead"),
    reuseDistance:
      sizes.maxReuseDistance === undefined
        ? { elements: 0, why: "released after each use" }
        : { elements: sizes.maxReuseDistance, why: "written" },
    persistence,
    subGroup,
  };
}

/** Each piece is an op or more in every step; a size that makes more is a slip of the pen. */
const mostPieces = 1e6;

/** @throws UsageError */
export function checkPieces(sizes: SizesConfig, elements: number): void {
  const least = Math.ceil(elements / mostPieces);
  const keys = {
    reduceBucketSize: "reduce_bucket_size",
    allgatherBucketSize: "allgather_bucket_size",
    subGroupSize: "sub_group_size",
  };
  for (const [name, key] of Object.entries(keys) as [keyof typeof keys, string][]) {
    const written = sizes[name];
    if (written !== undefined && written < least)
      throw new UsageError(
        `zero_optimization.${key}: found ${written}, which cuts ${elements} parameters into more than ${mostPieces} pieces; ` +
          `write at least ${least}, or leave it out`,
      );
  }
}
