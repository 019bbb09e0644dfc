/**
 * Model states of a rank in DeepSpeed, on its device and at rest. Rajbhandari et al., SC20, section 5, with DeepSpeed's element sizes:
 * 16 bytes a parameter in 16-bit training with Adam (2 parameters, 2 gradients, 12 master weights and moments); gradients that are
 * kept in fp32 make it 18.
 */
import type { OffloadDevice } from "../../config/types.ts";
import { UsageError } from "../../errors/errors.ts";
import { isSame, type Placement, placements } from "../../plan/placement.ts";
import { type SplitRow, stageRows } from "../../plan/residence.ts";
import type { DeepSpeedPart, DeepSpeedQuestion } from "./question.ts";

/** Of an element of the model in training. */
export const elementBytes = ({ precision }: DeepSpeedQuestion): number => (precision === "fp32" ? 4 : 2);

/** Of an element of the gradients at rest. */
export const gradientBytes = (question: DeepSpeedQuestion): number =>
  Math.max(question.gradientAccumulationBytes, elementBytes(question));

export const splitsOf = ({ placement }: DeepSpeedQuestion): SplitRow => stageRows[placement.stage];

/** Parameters whose states of a kind a rank has. */
export const heldParameters = (question: DeepSpeedQuestion, kind: keyof SplitRow): number =>
  question.shape.parameters / (splitsOf(question)[kind] === "whole" ? 1 : question.ranks);

const shareOnDevice: Readonly<Record<OffloadDevice, number>> = { none: 1, cpu: 0, nvme: 0 };

/** Of the optimizer's states. */
export const optimizerShareOnDevice = ({ placement, offloadRatio }: DeepSpeedQuestion): number =>
  placement.offloadOptimizer === "cpu" ? 1 - offloadRatio : shareOnDevice[placement.offloadOptimizer];

/** Sharded gradients go to the host with the optimizer; whole ones stay until they are reduced. */
const gradientShareOnDevice = (question: DeepSpeedQuestion): number =>
  splitsOf(question).gradients === "whole" ? 1 : optimizerShareOnDevice(question);

export function parameterStates(question: DeepSpeedQuestion): DeepSpeedPart {
  const held = heldParameters(question, "parameters");
  return {
    kind: "parameters",
    name: "parameters",
    bytes: elementBytes(question) * held * shareOnDevice[question.placement.offloadParam],
    why: `${elementBytes(question)} bytes x ${parametersText(question, "parameters")}`,
  };
}

export function gradientStates(question: DeepSpeedQuestion): DeepSpeedPart {
  const held = heldParameters(question, "gradients");
  return {
    kind: "gradients",
    name: "gradients",
    bytes: gradientBytes(question) * held * gradientShareOnDevice(question),
    why: `${gradientBytes(question)} bytes x ${parametersText(question, "gradients")}`,
  };
}

export function optimizerStates(question: DeepSpeedQuestion): DeepSpeedPart {
  const held = heldParameters(question, "optimizer");
  return {
    kind: "optimizer",
    name: "master weights and moments",
    bytes: question.optimizerBytes * held * optimizerShareOnDevice(question),
    why: `${question.optimizerBytes} bytes x ${parametersText(question, "optimizer")}`,
  };
}

/** "500,000,000". */
export const countText = (count: number): string => Math.round(count).toLocaleString("en-US");

const parametersText = (question: DeepSpeedQuestion, kind: keyof SplitRow): string => {
  const all = `${countText(question.shape.parameters)} parameters`;
  return splitsOf(question)[kind] === "whole" ? all : `${all} / ${question.ranks} ranks`;
};

/** DeepSpeed offloads to NVMe at stage 3 only. */
const canPlace = (placement: Placement): boolean =>
  stageRows[placement.stage].parameters === "shard" || placement.offloadOptimizer !== "nvme";

/** All places that DeepSpeed has, in the order in which they are tried. */
export const deepSpeedPlacements = (): Placement[] => placements().filter(canPlace);

/** Throws UsageError. */
export function checkPlacement(placement: Placement): void {
  const { stage, offloadOptimizer, offloadParam } = placement;
  const known = deepSpeedPlacements().some((other) => isSame(other, placement));
  // Parameters on the host with the optimizer on the device, or on disk, is legal too, and only at stage 3.
  if (known || stageRows[stage].parameters === "shard") return;
  throw new UsageError(
    `DeepSpeed has no stage ${stage} with the optimizer on "${offloadOptimizer}" and parameters on "${offloadParam}": ` +
      "NVMe and offload_param need stage 3, offload_optimizer needs stage 1 or more",
  );
}
