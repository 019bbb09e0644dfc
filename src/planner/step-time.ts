/** How long a step takes on a machine, and what bounds it: the engine on the simulated device with the machine's costs. */
import { type OverlappedQueue, overlappedQueues, type QueueOverlap } from "../device/overlap.ts";
import type { TimelineSink } from "../device/timeline.ts";
import { costsOf } from "../hardware/costs.ts";
import type { Machine } from "../hardware/machine.ts";
import type { Placement } from "../plan/placement.ts";
import { type EngineEstimate, type EngineJob, estimateByEngine } from "./engine-estimate.ts";
import type { BatchSplit } from "./settings.ts";

export interface StepTime {
  readonly seconds: number;
  /** In which the compute queue worked. */
  readonly computeSeconds: number;
  /** Of every other queue that was used: how long it worked, and for how much of that compute waited. */
  readonly transfers: readonly (QueueOverlap & { readonly queue: OverlappedQueue })[];
  /** What the step would be shorter without: compute, or the queue that compute waited for most. */
  readonly boundBy: "compute" | OverlappedQueue;
  /** Of all ranks. */
  readonly tokensPerSecond: number;
  /** Floating-point operations of all ranks in a step, recomputation included. */
  readonly operations: number;
}

/** Compute is what bounds a step that computes for most of it. */
const mostOfStep = 0.5;

export async function timeStep(
  job: EngineJob,
  placement: Placement,
  batch: BatchSplit,
  { machine, ranks, sink }: { machine: Machine; ranks: number; sink?: TimelineSink },
): Promise<{ readonly estimate: EngineEstimate; readonly time: StepTime } | undefined> {
  const estimate = await estimateByEngine(job, placement, batch, {
    costs: costsOf(machine, ranks),
    ...(sink && { sink }),
  });
  if (!estimate) return undefined;
  const { foretold } = estimate;
  const { seconds, computeSeconds, report } = foretold;
  const transfers = overlappedQueues
    .map((queue) => ({ queue, ...report.overlap[queue] }))
    .filter((transfer) => transfer.seconds > 0);
  const longest = [...transfers].sort((a, b) => b.waitedSeconds - a.waitedSeconds)[0];
  const isCompute = computeSeconds >= mostOfStep * seconds || longest === undefined || longest.waitedSeconds === 0;
  const tokens = ranks * batch.microBatch * batch.gradientAccumulation * job.seqLength;
  const time: StepTime = {
    seconds,
    computeSeconds,
    transfers,
    boundBy: isCompute ? "compute" : longest.queue,
    tokensPerSecond: tokens / seconds,
    operations: ranks * report.operations,
  };
  return { estimate, time };
}
