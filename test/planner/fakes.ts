// Jobs whose memory is arithmetic.
import { type Placement, placements } from "../../src/plan/placement.ts";
import type { Estimate } from "../../src/planner/estimate.ts";
import type { RankRoom } from "../../src/planner/fit.ts";
import type { BatchSplit } from "../../src/planner/settings.ts";
import type { PlanSubject, Variant } from "../../src/planner/subject.ts";

/** "0", "2 cpu/none", "3 nvme/nvme". */
export const placementName = ({ stage, offloadOptimizer, offloadParam }: Placement): string =>
  offloadOptimizer === "none" ? String(stage) : `${stage} ${offloadOptimizer}/${offloadParam}`;

export const allNames = placements().map(placementName);

export interface Needs {
  readonly device: number;
  /** Of those, model states; the rest are activations. */
  readonly states?: number;
  readonly host?: number;
  readonly disk?: number;
}

export const estimateOf = (placement: Placement, { microBatch }: BatchSplit, needs: Needs): Estimate => ({
  ...placement,
  microBatch,
  device: {
    parametersBytes: needs.states ?? 0,
    gradientsBytes: 0,
    optimizerBytes: 0,
    activationsBytes: needs.device - (needs.states ?? 0),
    buffersBytes: 0,
    totalBytes: needs.device,
  },
  hostBytes: needs.host ?? 0,
  diskBytes: needs.disk ?? 0,
  commElements: 0,
  parts: [],
});

/** A device of 100 GB, of which 85 GB may be taken, and a host and a disk without end. */
export const wideRoom: RankRoom = {
  deviceBytes: 100e9,
  hostBytes: Number.POSITIVE_INFINITY,
  diskBytes: Number.POSITIVE_INFINITY,
  hostSharers: 1,
};

export const plainVariant: Variant = { ranks: 4, seqLength: 1024, checkpointing: false };

/** @param needs undefined where a configuration rules the placement out */
export function subjectOf(
  needs: (variant: Variant, placement: Placement, batch: BatchSplit) => Needs | undefined,
  more: Partial<PlanSubject> = {},
): PlanSubject & { readonly asks: string[] } {
  const asks: string[] = [];
  return {
    asked: plainVariant,
    parameters: 1e9,
    trainBatch: undefined,
    microBatch: undefined,
    roomOf: () => wideRoom,
    timeOf: undefined,
    estimateOf: (variant) => async (placement, batch) => {
      asks.push(`${placementName(placement)} x${batch.microBatch}`);
      const found = needs(variant, placement, batch);
      return found && estimateOf(placement, batch, found);
    },
    asks,
    ...more,
  };
}
