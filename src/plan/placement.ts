/** Where model states are asked to be, and in which order places are tried: each tier frees device memory at a price. */
import type { OffloadDevice, Stage } from "../config/types.ts";

export interface Placement {
  readonly stage: Stage;
  readonly offloadOptimizer: OffloadDevice;
  readonly offloadParam: OffloadDevice;
}

export type Offload = Omit<Placement, "stage">;

/** The fewest offloads first: none; the optimizer on the host; parameters too; disk. */
export const offloads = [
  { offloadOptimizer: "none", offloadParam: "none" },
  { offloadOptimizer: "cpu", offloadParam: "none" },
  { offloadOptimizer: "cpu", offloadParam: "cpu" },
  { offloadOptimizer: "nvme", offloadParam: "none" },
  { offloadOptimizer: "nvme", offloadParam: "nvme" },
] as const satisfies readonly Offload[];

export const allStages: readonly Stage[] = [0, 1, 2, 3];

export const isSame = (a: Placement, b: Placement): boolean =>
  a.stage === b.stage && a.offloadOptimizer === b.offloadOptimizer && a.offloadParam === b.offloadParam;

/** All ways that work. A stage costs little, a tier costs time: so all stages come before the next tier, `first` before the others. */
export function placements(first: Stage = 0): Placement[] {
  const stages = [first, ...allStages.filter((stage) => stage !== first)];
  return offloads.flatMap(({ offloadOptimizer, offloadParam }) =>
    stages
      .filter((stage) => (stage > 0 || offloadOptimizer === "none") && (stage === 3 || offloadParam === "none"))
      .map((stage) => ({ stage, offloadOptimizer, offloadParam })),
  );
}
