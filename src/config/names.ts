/** Names of optimizers and schedules: those that are here, those that are DeepSpeed's or PyTorch's and not here, and what to use instead. */

import { nearest } from "../errors/spelling.ts";
import type { ConfigNode } from "./json.ts";
import type { OptimizerConfig, ScheduleConfig } from "./types.ts";
import { describe } from "./value-types.ts";

export const optimizerTypes = [
  "Adam",
  "AdamW",
  "Lion",
  "SGD",
  "Adagrad",
] as const satisfies readonly OptimizerConfig["type"][];
export const scheduleTypes = [
  "WarmupLR",
  "WarmupDecayLR",
  "WarmupCosineLR",
  "OneCycle",
  "LRRangeTest",
] as const satisfies readonly ScheduleConfig["type"][];

const compressed = "it compresses what ranks send, and DeepSpeed has it at stage 0 only; use AdamW";
const scaled = "use its plain form without the width scaling";

/** Optimizers of DeepSpeed and PyTorch that are not here, and why or what instead. */
const otherOptimizers: Readonly<Record<string, string>> = {
  OneBitAdam: compressed,
  ZeroOneAdam: compressed,
  OneBitLamb: compressed,
  Lamb: "its norms are per layer, which shards do not keep; use AdamW",
  Muon: "it needs whole matrices, which shards do not keep; use AdamW",
  MuAdam: `${scaled}: Adam`,
  MuAdamW: `${scaled}: AdamW`,
  MuSGD: `${scaled}: SGD`,
  FusedAdam: "every optimizer here is fused; write Adam",
  DeepSpeedCPUAdam: "where the states live is offload_optimizer's matter; write Adam",
  CPUAdam: "where the states live is offload_optimizer's matter; write Adam",
  RMSprop: "use AdamW",
  Adafactor: "use Lion, which keeps one moment",
  Adadelta: "use AdamW",
  Adamax: "use AdamW",
  NAdam: "use AdamW",
  RAdam: "use AdamW with a warm-up",
  ASGD: "use SGD",
  SparseAdam: "use Adam",
  LBFGS: "use AdamW",
  Rprop: "use AdamW",
};

const otherSchedules: Readonly<Record<string, string>> = {
  CosineAnnealingLR: "use WarmupCosineLR",
  CosineAnnealingWarmRestarts: "use WarmupCosineLR",
  OneCycleLR: "use OneCycle, DeepSpeed's own",
  CyclicLR: "use OneCycle",
  LinearLR: "use WarmupDecayLR",
  PolynomialLR: "use WarmupDecayLR",
  StepLR: "use WarmupDecayLR",
  MultiStepLR: "use WarmupDecayLR",
  ExponentialLR: "use WarmupCosineLR",
  ConstantLR: "leave the scheduler out: the learning rate is constant",
  LambdaLR: "use WarmupLR, WarmupDecayLR or WarmupCosineLR",
  ReduceLROnPlateau: "use WarmupCosineLR",
  cosine: "use WarmupCosineLR",
  linear: "use WarmupDecayLR",
  constant_with_warmup: "use WarmupLR",
  constant: "leave the scheduler out: the learning rate is constant",
};

export const explainOptimizer = explainer("an optimizer", optimizerTypes, otherOptimizers);
export const explainScheduler = explainer("a schedule", scheduleTypes, otherSchedules);

/** Says of a name that is not here whether it is known elsewhere, or a slip of the pen. */
function explainer(what: string, here: readonly string[], others: Readonly<Record<string, string>>) {
  const known = new Map(
    Object.entries(others).map(([name, instead]) => [name.toLowerCase(), [name, instead] as const]),
  );
  return (found: ConfigNode): string | undefined => {
    if (found.kind !== "scalar" || typeof found.value !== "string") return undefined;
    const other = known.get(found.value.toLowerCase());
    if (other !== undefined)
      return `${other[0]} is ${what} that this version does not have (it has ${here.join(", ")}): ${other[1]}`;
    const near = nearest(found.value, [...here, ...Object.keys(others)]);
    const hint = near === undefined ? "" : `; did you mean ${near}?`;
    return `found ${describe(found)}; wanted ${what}: ${here.join(", ")}${hint}`;
  };
}
