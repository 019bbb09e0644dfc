/** Bucket, look-ahead and other sizes in elements: as written in the configuration, or derived from the model (contracts 12). */
import type { ResolvedConfig, SizesConfig } from "../config/types.ts";
import type { ModelDescription } from "../nn/describe.ts";
import { elementsOf } from "../tensor/tensor.ts";
import type { FlatLayout, UnitLayout } from "./layout.ts";
import { normBlock } from "./partial-offload.ts";

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

export function planSizes(
  { sizes, worldSize, offloadRatio }: Pick<ResolvedConfig, "sizes" | "worldSize" | "offloadRatio">,
  persistence: PlannedSize,
  units: readonly UnitLayout[],
): PlannedSizes {
  const all = units.reduce((sum, u) => sum + unitElements(u, () => true), 0);
  const largest = Math.max(...units.map((u) => unitElements(u, () => true)));
  const largestGathered = Math.max(...units.map((u) => unitElements(u, (f) => !f.persistent)));
  const pick = (written: number | undefined, derived: number, why: string): PlannedSize =>
    written === undefined ? { elements: derived, why } : { elements: Math.min(written, all), why: "written" };
  const prefetch = pick(sizes.prefetchBucketSize, largestGathered, "one unit");
  const live = largestGathered + prefetch.elements;
  const quarter = Math.max(2 ** 20, Math.ceil(largest / worldSize / 4));
  const tenth = Math.max(normBlock, Math.floor(all / worldSize / leastSubGroups / normBlock) * normBlock);
  const subGroup =
    offloadRatio < 1 && tenth < quarter
      ? pick(sizes.subGroupSize, tenth, "a tenth of a rank's, for the ratio")
      : pick(sizes.subGroupSize, quarter, "largest shard / 4, at least 2^20");
  return {
    reduceBucket: pick(sizes.reduceBucketSize, largest, "the largest unit"),
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
