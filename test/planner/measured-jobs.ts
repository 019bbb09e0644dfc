/**
 * Jobs whose memory was measured and published, as questions to the estimator. Setups in our own words; what a source leaves unsaid
 * is taken as the defaults have it, and `assumed` says so. GiB where the source's tool prints GiB.
 */
import type { DeepSpeedEstimate } from "../../src/planner/deepspeed.ts";
import { allocatorReadings } from "./measured-allocator.ts";
import type { MeasuredJob, Quantity } from "./measured-kit.ts";
import { lengthSweep, userReports } from "./measured-reports.ts";

export const measuredJobs: readonly MeasuredJob[] = [...allocatorReadings, ...lengthSweep, ...userReports];

/** What of an estimate a reading is compared with. */
export function estimatedBytes({ question, quantity }: MeasuredJob, estimate: DeepSpeedEstimate): number {
  const values: Record<Quantity, number> = {
    allocated: estimate.allocatedBytes,
    peak: estimate.peakBytes,
    reserved: estimate.reservedBytes,
    "nvidia-smi": estimate.reservedBytes + estimate.contextBytes,
    start: (estimate.moments.start ?? 0) + estimate.contextBytes,
    parameters: estimate.device.parametersBytes,
    optimizer: estimate.device.optimizerBytes,
    "all ranks": estimate.allocatedBytes * question.ranks,
    "host of a node": estimate.hostBytes * question.ranksPerNode,
  };
  return values[quantity];
}
