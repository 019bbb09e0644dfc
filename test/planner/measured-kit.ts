/** What rows of measured jobs are made of. */
import type { Placement } from "../../src/plan/placement.ts";
import { type DeepSpeedQuestion, deepSpeedDefaults, defaultOverlapComm } from "../../src/planner/deepspeed.ts";
import { publishedShape } from "../../src/planner/published-shapes.ts";
import type { TransformerShape } from "../../src/planner/shape.ts";

export const GB = 1e9;
export const GiB = 2 ** 30;
export const MiB = 2 ** 20;

/** What was read, and of the estimate what it is to be compared with. */
export type Quantity =
  | "allocated"
  | "peak"
  | "reserved"
  | "nvidia-smi"
  | "start"
  | "parameters"
  | "optimizer"
  | "all ranks"
  | "host of a node";

export interface MeasuredJob {
  readonly id: string;
  readonly source: string;
  /** In at most about 60 characters; the rest of what the source says is in `details`. */
  readonly setup: string;
  readonly details?: string;
  /** What the source does not say. */
  readonly assumed?: string;
  readonly question: DeepSpeedQuestion;
  readonly quantity: Quantity;
  readonly measuredBytes: number;
  /** The error that is allowed: 0.05 of the allocated, 0.15 of peaks of sections A and B, 0.25 of others. */
  readonly within: number;
  /** Why the estimate misses. */
  readonly missed?: string;
}

export const model = (name: string): TransformerShape => {
  const shape = publishedShape(name);
  if (shape === undefined) throw new Error(`no published shape ${name}`);
  return shape;
};

type Given = Partial<DeepSpeedQuestion> & Pick<DeepSpeedQuestion, "shape" | "ranks">;

export function ask(placement: Placement, given: Given): DeepSpeedQuestion {
  return {
    ...deepSpeedDefaults,
    overlapComm: defaultOverlapComm[placement.stage],
    ranksPerNode: Math.min(8, given.ranks),
    microBatch: 1,
    seqLength: 512,
    placement,
    ...given,
  };
}

export const at = (
  stage: Placement["stage"],
  offloadOptimizer: Placement["offloadOptimizer"] = "none",
  offloadParam: Placement["offloadParam"] = "none",
): Placement => ({ stage, offloadOptimizer, offloadParam });

export const github = (repository: string, number: number, kind = "issues"): string =>
  `https://github.com/${repository}/${kind}/${number}`;
export const deepspeed = (number: number, kind = "issues"): string => github("deepspeedai/DeepSpeed", number, kind);
