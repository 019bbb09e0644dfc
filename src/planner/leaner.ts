/** Whether a job is placed further away than it needs to be: offloaded without need, or sharded where less sharding fits. */
import { isSame, type Placement, placements } from "../plan/placement.ts";
import type { Estimate } from "./estimate.ts";
import { type RankRoom, shortagesOf } from "./fit.ts";

const order = placements();
const onDevice = order.filter(
  ({ offloadOptimizer, offloadParam }) => offloadOptimizer === "none" && offloadParam === "none",
);

/**
 * The first placement that fits, fewest offloads first and then the smallest stage, of those that come before the asked one; of a
 * combination that nobody recommends (parameters alone are offloaded) all come before it that offload nothing.
 */
export function leanerPlacement(
  asked: Placement,
  room: RankRoom,
  estimateOf: (placement: Placement) => Estimate | undefined,
): Estimate | undefined {
  const at = order.findIndex((placement) => isSame(placement, asked));
  for (const placement of at < 0 ? onDevice : order.slice(0, at)) {
    const estimate = estimateOf(placement);
    if (estimate && shortagesOf(estimate, room).length === 0) return estimate;
  }
  return undefined;
}
