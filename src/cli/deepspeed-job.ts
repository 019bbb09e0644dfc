/** A configuration as the DeepSpeed estimator is asked about it. */
import type { ResolvedConfig } from "../config/types.ts";
import { createOptimizer } from "../optim/optimizer.ts";
import { isSame, type Placement } from "../plan/placement.ts";
import { stageRows } from "../plan/residence.ts";
import {
  type DeepSpeedEstimate,
  type DeepSpeedQuestion,
  deepSpeedDefaults,
  deepSpeedPlacements,
  defaultBuckets,
  defaultOverlapComm,
  estimateDeepSpeed,
} from "../planner/deepspeed.ts";

type Like = Pick<
  ResolvedConfig,
  "precision" | "optimizer" | "gradientAccumulationType" | "overlapComm" | "sizes" | "offloadRatio"
>;

/** What the file does not say. */
export type DeepSpeedRun = Pick<
  DeepSpeedQuestion,
  "shape" | "ranks" | "ranksPerNode" | "microBatch" | "gradientAccumulation" | "seqLength" | "checkpointing"
>;

/** @returns undefined where DeepSpeed has no such placement */
export function estimateForDeepSpeed(
  like: Like,
  placement: Placement,
  run: DeepSpeedRun,
): DeepSpeedEstimate | undefined {
  const { sizes, precision, optimizer, gradientAccumulationType, overlapComm, offloadRatio } = like;
  if (!deepSpeedPlacements().some((known) => isSame(known, placement))) return undefined;
  // Where every rank updates everything, DeepSpeed adds gradients in the parameters' own type only.
  if (gradientAccumulationType !== precision && stageRows[placement.stage].optimizer === "whole") return undefined;
  return estimateDeepSpeed({
    ...deepSpeedDefaults,
    ...run,
    placement,
    precision,
    optimizerBytes: 4 * createOptimizer(optimizer).states.length + (precision === "fp32" ? 0 : 4),
    offloadRatio,
    gradientAccumulationBytes: gradientAccumulationType === "fp32" ? 4 : 2,
    buckets: {
      reduceElements: sizes.reduceBucketSize ?? defaultBuckets.reduceElements,
      allgatherElements: sizes.allgatherBucketSize ?? defaultBuckets.allgatherElements,
      prefetchElements: sizes.prefetchBucketSize ?? defaultBuckets.prefetchElements,
      liveElements: sizes.maxLiveParameters ?? defaultBuckets.liveElements,
      persistenceElements: sizes.paramPersistenceThreshold ?? defaultBuckets.persistenceElements,
      subGroupElements: sizes.subGroupSize ?? defaultBuckets.subGroupElements,
    },
    overlapComm: defaultOverlapComm[placement.stage] || overlapComm,
  });
}
