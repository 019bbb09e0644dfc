/** Precision, batch, optimizer and schedule of a configuration in words. */
import type { ConfigResolution } from "../config/resolve.ts";
import type { ElementType, LossScaleConfig, OptimizerConfig, ScheduleConfig } from "../config/types.ts";
import { often } from "../plan/expected.ts";
import type { Subject } from "../planner/explained.ts";
import { placeText } from "./explain-text.ts";
import { formatCount, formatMany } from "./numbers.ts";

const typeWords: Readonly<Record<ElementType, string>> = {
  fp32: "fp32 (4 bytes): parameters, activations and gradients in full precision; there is no second copy to update",
  fp16: "fp16 (2 bytes): parameters, activations and gradients in half precision, which reaches from 6e-8 to 65,504; the update is made in fp32 on a master copy",
  bf16: "bf16 (2 bytes): parameters, activations and gradients in half precision with the reach of fp32 and 8 bits of fraction; the update is made in fp32 on a master copy",
};

export function precisionNotes({ config }: Subject): string[] {
  const { precision, gradientAccumulationType: resting, gradientReduction, gradientAccumulation } = config;
  const travel = gradientReduction.type ?? (resting === precision || config.stage >= 2 ? precision : resting);
  return [
    `${typeWords[precision]}.`,
    ...(config.lossScale === undefined ? lossUnscaled(config) : [lossScaleWords(config.lossScale)]),
    gradientAccumulation === 1
      ? `Gradients rest in ${resting} until the update and travel between ranks in ${travel}.`
      : `The gradients of ${gradientAccumulation} micro-batches are added in ${resting}, and travel between ranks in ${travel}.`,
    gradientReduction.operation === "sum"
      ? "The ranks' gradients are summed, not averaged."
      : "The ranks' gradients are averaged.",
    clippingWords(config),
  ];
}

function lossUnscaled({ precision, skipsOverflow }: ConfigResolution): string[] {
  if (precision === "fp32") return ["The loss is not scaled."];
  return [
    skipsOverflow
      ? "The loss is not scaled (bf16 needs it not). A step whose gradients are not finite is skipped (bf16.check_grad_overflow; DeepSpeed looks at stages 1 and 2 only)."
      : "The loss is not scaled (bf16 needs it not). A gradient that is not finite stops the run (bf16.check_grad_overflow is false).",
  ];
}

function lossScaleWords(scale: LossScaleConfig): string {
  const why = "so that small gradients do not vanish in fp16";
  if (scale.kind === "static")
    return `The loss is multiplied by ${formatCount(scale.scale)}, always, ${why}; a step that overflows is skipped.`;
  const { initialScale, window, hysteresis, consecutiveHysteresis, minScale } = scale;
  const refill = consecutiveHysteresis ? "a clean step" : "it next doubles";
  const spared =
    hysteresis === 1
      ? "the scale is halved"
      : `${hysteresis === 2 ? "the first only counts" : `the first ${hysteresis - 1} only count`}, each one more halves the scale, until ${refill}`;
  return `The loss is multiplied by a scale, ${why}: ${initialScale < 1e12 ? formatCount(initialScale) : initialScale.toPrecision(3)} at first, doubled after ${formatMany(window, "step")} without overflow. A step that overflows is skipped: ${spared}. An overflow at ${formatCount(minScale)}, the least, ends the run.`;
}

function clippingWords({ gradientClipping, ...config }: ConfigResolution): string {
  const place = placeText({ ...config, gradientClipping }, "gradient_clipping");
  if (gradientClipping === 0) return `Gradients are not clipped (gradient_clipping 0${place}).`;
  const isLeftOut = place === "" && !config.autos.some(({ path }) => path === "gradient_clipping");
  return (
    `Gradients are clipped: where their norm over all parameters is above ${gradientClipping}${place} they are scaled down to it.` +
    (isLeftOut ? " That is DeepSpeed's default since 0.19; before the middle of 2026 it was 0, no clipping." : "")
  );
}

export function batchNotes({ config, seqLength }: Subject): string[] {
  const { microBatch, gradientAccumulation, worldSize, trainBatch } = config;
  const own = (path: string): string => {
    const auto = config.autos.find((filled) => filled.path === path);
    if (auto !== undefined) return ' ("auto", derived)';
    return placeText(config, path) || " (derived)";
  };
  const tokens =
    seqLength === undefined
      ? ""
      : `: ${formatMany(trainBatch * seqLength, "token")}, ${formatCount(seqLength)} a sample`;
  return [
    `${formatMany(trainBatch, "sample")} a step${own("train_batch_size")} = ${formatCount(microBatch)} in a micro-batch${own("train_micro_batch_size_per_gpu")} x ${formatCount(gradientAccumulation)} accumulated${own("gradient_accumulation_steps")} x ${formatMany(worldSize, "rank")} (--ranks)${tokens}.`,
    `A rank passes ${formatMany(microBatch, "sample")} forward and backward at once, ${often(gradientAccumulation)} before the parameters change. Activations grow with the micro-batch; accumulation costs none.`,
    "With another number of ranks the same file gives another batch, or none.",
  ];
}

export function optimizerNotes({ config }: Subject): string[] {
  const { optimizer, parameterGroups, schedule, freeze, lora } = config;
  return [
    ...(config.places.has("optimizer.type")
      ? []
      : ["The file names no optimizer: in DeepSpeed the training script gives one, Shunya takes AdamW."]),
    optimizerWords(optimizer, placeText(config, "optimizer.type")),
    scheduleWords(schedule, optimizer),
    ...(parameterGroups.length === 0
      ? []
      : [
          `${formatMany(parameterGroups.length, "parameter group")} (shunya.parameter_groups) with learning rates or weight decay of their own; DeepSpeed ignores them.`,
        ]),
    ...(lora
      ? [
          `LoRA of rank ${lora.rank} (shunya.lora): adapters alone are trained, psi_t of psi parameters. DeepSpeed ignores the key: there a script adds them.`,
        ]
      : []),
    ...(freeze.length > 0
      ? [
          `Parameters that fit ${freeze.join(", ")} are frozen (shunya.freeze), psi_t of psi are trained. DeepSpeed ignores the key: there a script freezes them.`,
        ]
      : []),
  ];
}

function optimizerWords(optimizer: OptimizerConfig, place: string): string {
  const { type, learningRate, weightDecay } = optimizer;
  const decay = weightDecay === 0 ? "no weight decay" : `weight decay ${weightDecay}`;
  const head = `${type}${place}, learning rate ${learningRate}, `;
  switch (optimizer.type) {
    case "Adam":
    case "AdamW":
      return `${head}betas ${optimizer.beta1} and ${optimizer.beta2}, eps ${optimizer.epsilon}, ${decay}${weightDecay === 0 ? "" : optimizer.type === "AdamW" ? ", taken from the weights themselves" : ", added to the gradients"}${optimizer.biasCorrection ? "" : ", no bias correction"}. It divides a running mean of each gradient (the first moment) by the root of a running mean of its square (the second)${type === "AdamW" && place !== "" ? '. In DeepSpeed "Adam" means this too, unless adam_w_mode is false' : ""}.`;
    case "Lion":
      return `${head}betas ${optimizer.beta1} and ${optimizer.beta2}, ${decay}. It steps by the sign of a running mean of each gradient: one moment, so 8 bytes of states where Adam has 12.`;
    case "SGD":
      return `${head}${decay}, ${optimizer.momentum === 0 ? "no momentum: nothing is kept but the parameters" : `momentum ${optimizer.momentum}${optimizer.nesterov ? " (Nesterov's)" : ""}`}.`;
    case "Adagrad":
      return `${head}eps ${optimizer.epsilon}, ${decay}. It divides each gradient by the root of the sum of all its squares so far.`;
    default:
      return optimizer satisfies never;
  }
}

function scheduleWords(schedule: ScheduleConfig | undefined, optimizer: OptimizerConfig): string {
  if (schedule === undefined) return "No schedule: the learning rate is the same in every step.";
  const head = `Schedule ${schedule.type}: `;
  const steps = (count: number): string =>
    count === Number.POSITIVE_INFINITY ? "the end of the run" : `step ${formatCount(count)}`;
  switch (schedule.type) {
    case "WarmupLR":
      return `${head}the learning rate rises from ${schedule.minLearningRate} to ${schedule.maxLearningRate ?? optimizer.learningRate} over ${formatMany(schedule.warmupSteps, "step")} (${schedule.warmupType}), and stays there.`;
    case "WarmupDecayLR":
      return `${head}the learning rate rises from ${schedule.minLearningRate} to ${schedule.maxLearningRate} over ${formatMany(schedule.warmupSteps, "step")} (${schedule.warmupType}), then falls in a straight line back to ${schedule.minLearningRate} at ${steps(schedule.totalSteps)}.`;
    case "WarmupCosineLR":
      return `${head}the learning rate rises from ${schedule.minRatio} of ${optimizer.learningRate} to all of it over ${formatMany(schedule.warmupSteps, "step")} (${schedule.warmupType}), then falls along a cosine to ${schedule.cosMinRatio} of it at ${steps(schedule.totalSteps)}.`;
    case "LRRangeTest":
      return `${head}a search for a learning rate: from ${schedule.minLearningRate} it grows by ${schedule.stepRate} of that every ${formatMany(schedule.stepSize, "step")}${schedule.staircase ? ", in steps" : ""}.`;
    case "OneCycle":
      return `${head}the learning rate rises from ${schedule.minLearningRate} to ${schedule.maxLearningRate} over ${formatMany(schedule.firstStepSize, "step")} and falls back over ${formatMany(schedule.secondStepSize, "step")}${schedule.momentum === undefined ? "" : ", momentum the other way round"}${schedule.decayStepSize > 0 && schedule.decayRate > 0 ? ", then decays" : ""}.`;
    default:
      return schedule satisfies never;
  }
}
