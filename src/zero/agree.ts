/** What the ranks tell each other once a step's gradients are there, in one exchange: its loss, its targets, the norm, and who wants to stop. */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import type { LossBook } from "./batch.ts";
import type { GlobalNorm, GradientNorm } from "./norm.ts";
import { type TargetBook, toldNumbers } from "./target-book.ts";

export interface StepParts {
  readonly device: Device;
  readonly group: ProcessGroup;
  readonly norm: GradientNorm;
  readonly losses: LossBook;
  readonly targets: TargetBook;
}

export interface Agreement extends GlobalNorm {
  /** Mean over the targets of the global batch. */
  readonly loss: number;
  readonly targets: number;
  /** Some rank was asked to stop. */
  readonly stops: boolean;
}

/**
 * The same on every rank. @param own this rank's, in the step `step` (from 1) of `microBatches` of all ranks
 * @throws UsageError, on all ranks, where the targets are not as they were told of
 */
export async function agree(
  { device, group, norm, losses, targets }: StepParts,
  own: { readonly wantsStop: boolean; readonly step: number; readonly microBatches: number },
): Promise<Agreement> {
  device.timeline.scope = "gradients";
  const partials = await norm.partials();
  device.timeline.scope = "";
  const lossSum = await losses.sum();
  const told = Float64Array.of(lossSum, Number(own.wantsStop), ...targets.told, ...partials);
  const ranks = await group.exchange(told, "losses and gradient norms");
  const normsFrom = 2 + toldNumbers;
  const count = targets.check(
    ranks.map((r) => r.subarray(2, normsFrom)),
    own.step,
  );
  return {
    ...norm.combine(ranks.map((r) => r.subarray(normsFrom))),
    loss: ranks.reduce((sum, r) => sum + r[0]!, 0) / own.microBatches,
    targets: count,
    stops: ranks.some((r) => r[1] !== 0),
  };
}
