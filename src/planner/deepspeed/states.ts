/**
 * Model states of a rank in DeepSpeed: bytes at rest on the device, and the copies that an update makes. Rajbhandari et al., SC20,
 * section 5, with the element sizes that DeepSpeed has.
 */
import type { OffloadDevice, Stage } from "../../config/types.ts";
import { type Split, stageRows } from "../../plan/residence.ts";
import type { DeepSpeedQuestion } from "./question.ts";

export interface DeviceStates {
  readonly parametersBytes: number;
  readonly gradientsBytes: number;
  readonly optimizerBytes: number;
}

/** Of an element of the model in training. */
export const elementBytes: Readonly<Record<DeepSpeedQuestion["precision"], number>> = { fp32: 4, bf16: 2, fp16: 2 };

const onDevice: Readonly<Record<OffloadDevice, number>> = { none: 1, cpu: 0, nvme: 0 };

/** Of all sub-groups, the part whose optimizer states stay on the device. */
export const optimizerShareOnDevice = ({ placement, offloadRatio }: DeepSpeedQuestion): number =>
  placement.offloadOptimizer === "cpu" ? 1 - offloadRatio : onDevice[placement.offloadOptimizer];

/** The part of a kind of state that one rank has. */
export const shareOf = (split: Split, ranks: number): number => (split === "whole" ? 1 : 1 / ranks);

export const splitsOf = (stage: Stage) => stageRows[stage];

export function statesOnDevice(question: DeepSpeedQuestion): DeviceStates {
  const { shape, placement, ranks, precision, optimizerBytes, gradientAccumulationBytes } = question;
  const splits = splitsOf(placement.stage);
  const gradientBytes = Math.max(gradientAccumulationBytes, elementBytes[precision]);
  return {
    parametersBytes:
      elementBytes[precision] * shape.parameters * shareOf(splits.parameters, ranks) * onDevice[placement.offloadParam],
    gradientsBytes:
      gradientBytes * shape.parameters * shareOf(splits.gradients, ranks) * optimizerShareOnDevice(question),
    optimizerBytes:
      optimizerBytes * shape.parameters * shareOf(splits.optimizer, ranks) * optimizerShareOnDevice(question),
  };
}
