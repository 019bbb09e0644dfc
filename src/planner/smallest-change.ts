/**
 * The smallest change that makes a job fit. Cheap changes come first: a smaller micro-batch with more accumulation trains the same, then
 * activation checkpointing, the next stage, the optimizer's states on the host, parameters too, disk. Where one is not enough, cheaper
 * ones are added to it.
 */
import { isSame, type Placement, placements } from "../plan/placement.ts";
import type { Estimate } from "./estimate.ts";
import { type RankRoom, shortagesOf } from "./fit.ts";
import type { BatchSplit } from "./settings.ts";

/** A job as far as a change may change it. */
export interface JobVariant extends BatchSplit {
  readonly placement: Placement;
  readonly checkpointing: boolean;
}

/** Undefined where the engine has no such placement. */
export type EstimateVariant = (placement: Placement, batch: BatchSplit, checkpointing: boolean) => Estimate | undefined;

export interface SmallestChange extends JobVariant {
  readonly estimate: Estimate;
}

/** @returns undefined if nothing fits; `asked` itself if it does */
export function smallestChange(
  asked: JobVariant,
  room: RankRoom,
  estimateOf: EstimateVariant,
): SmallestChange | undefined {
  for (const placement of placementsFrom(asked.placement))
    for (const checkpointing of asked.checkpointing ? [true] : [false, true])
      for (const batch of smallerBatches(asked)) {
        const estimate = estimateOf(placement, batch, checkpointing);
        if (estimate && shortagesOf(estimate, room).length === 0)
          return { placement, checkpointing, ...batch, estimate };
      }
  return undefined;
}

/** The asked one, then those that free more of the device: never a lower stage, never an offload less. */
function placementsFrom(asked: Placement): Placement[] {
  const further = placements(asked.stage).filter(
    (other) =>
      !isSame(other, asked) &&
      other.stage >= asked.stage &&
      distance[other.offloadOptimizer] >= distance[asked.offloadOptimizer] &&
      distance[other.offloadParam] >= distance[asked.offloadParam],
  );
  return [asked, ...further];
}

const distance: Readonly<Record<Placement["offloadOptimizer"], number>> = { none: 0, cpu: 1, nvme: 2 };

/** The same samples a step in smaller micro-batches, the largest first. */
function smallerBatches({ microBatch, gradientAccumulation }: BatchSplit): BatchSplit[] {
  const parts: number[] = [];
  for (let part = 1; part * part <= microBatch; part++)
    if (microBatch % part === 0) parts.push(...new Set([part, microBatch / part]));
  return parts
    .sort((a, b) => a - b)
    .map((part) => ({ microBatch: microBatch / part, gradientAccumulation: gradientAccumulation * part }));
}
