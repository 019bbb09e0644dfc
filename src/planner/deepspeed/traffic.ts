/** Elements that a rank sends in a step, as DeepSpeed's collectives do it. */
import type { Stage } from "../../config/types.ts";
import type { DeepSpeedQuestion } from "./question.ts";

/**
 * In parameters, before the factor (ranks - 1) / ranks; g micro-batches. Stages 1 and 2 reduce with an all-reduce of the whole bucket
 * although `reduce_scatter` is true (`use_multi_rank_bucket_allreduce`, on by default), which costs twice the paper's reduce-scatter.
 */
const sentParameters: Readonly<Record<Stage, (g: number) => number>> = {
  0: () => 2,
  1: () => 2 + 1,
  2: (g) => 2 * g + 1,
  3: (g) => 3 * g,
};

export const commElements = ({ shape, placement, ranks, gradientAccumulation }: DeepSpeedQuestion): number =>
  (sentParameters[placement.stage](gradientAccumulation) * shape.parameters * (ranks - 1)) / ranks;
