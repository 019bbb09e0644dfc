/** The `scheduler` section: each type with its own parameters and DeepSpeed's defaults. */

import { nameUnjudged, refuseForeign } from "./foreign.ts";
import type { Settings } from "./reader.ts";
import type { OptimizerConfig, ScheduleConfig, WarmupConfig } from "./types.ts";

type ScheduleType = ScheduleConfig["type"];

const warmup = ["warmup_num_steps", "warmup_type"] as const;
const range = ["warmup_min_lr", "warmup_max_lr"] as const;
const parametersOf: Readonly<Record<ScheduleType, readonly string[]>> = {
  WarmupLR: [...warmup, ...range],
  WarmupDecayLR: [...warmup, ...range, "total_num_steps"],
  WarmupCosineLR: [...warmup, "total_num_steps", "warmup_min_ratio", "cos_min_ratio"],
  OneCycle: [
    ...["cycle_min_lr", "cycle_max_lr", "decay_lr_rate", "decay_step_size"],
    ...["cycle_first_step_size", "cycle_second_step_size"],
    ...["cycle_momentum", "cycle_min_mom", "cycle_max_mom", "decay_mom_rate"],
  ],
  LRRangeTest: ["min_lr", "step_size", "step_rate", "staircase"].map((name) => `lr_range_test_${name}`),
};

/** @param optimizer its momentum (Adam's and Lion's beta1) is what OneCycle cycles */
export function resolveSchedule(settings: Settings, optimizer: OptimizerConfig): ScheduleConfig | undefined {
  const type = settings.get("scheduler.type");
  if (settings.isUnreadable("scheduler.type")) {
    nameUnjudged(settings, "scheduler");
    return undefined;
  }
  refuseForeign(settings, "scheduler", type, type === undefined ? [] : parametersOf[type]);
  switch (type) {
    case undefined:
      return undefined;
    case "WarmupLR":
      return {
        type,
        ...warmupOf(settings),
        minLearningRate: settings.get("scheduler.params.warmup_min_lr") ?? 0,
        maxLearningRate: settings.get("scheduler.params.warmup_max_lr"),
      };
    case "WarmupDecayLR":
      return {
        type,
        ...warmupOf(settings),
        minLearningRate: settings.get("scheduler.params.warmup_min_lr") ?? 0,
        maxLearningRate: settings.get("scheduler.params.warmup_max_lr") ?? 1e-3,
        totalSteps: needed(settings, type, "total_num_steps", "the number of optimizer steps of the whole run"),
      };
    case "WarmupCosineLR":
      return {
        type,
        ...warmupOf(settings),
        totalSteps: needed(settings, type, "total_num_steps", "the number of optimizer steps of the whole run"),
        minRatio: settings.get("scheduler.params.warmup_min_ratio") ?? 0,
        cosMinRatio: settings.get("scheduler.params.cos_min_ratio") ?? 1e-4,
      };
    case "OneCycle":
      return oneCycle(settings, optimizer);
    case "LRRangeTest":
      return {
        type,
        minLearningRate: settings.get("scheduler.params.lr_range_test_min_lr") ?? 1e-3,
        stepSize: settings.get("scheduler.params.lr_range_test_step_size") ?? 2000,
        stepRate: settings.get("scheduler.params.lr_range_test_step_rate") ?? 1,
        staircase: settings.get("scheduler.params.lr_range_test_staircase") ?? false,
      };
    default:
      return type satisfies never;
  }
}

function oneCycle(settings: Settings, optimizer: OptimizerConfig): ScheduleConfig {
  const type = "OneCycle";
  const firstStepSize = settings.get("scheduler.params.cycle_first_step_size") ?? 2000;
  return {
    type,
    minLearningRate: needed(settings, type, "cycle_min_lr", "the learning rate at both ends of the cycle"),
    maxLearningRate: needed(settings, type, "cycle_max_lr", "the learning rate at the peak"),
    decayRate: settings.get("scheduler.params.decay_lr_rate") ?? 0,
    firstStepSize,
    secondStepSize: settings.get("scheduler.params.cycle_second_step_size") ?? firstStepSize,
    decayStepSize: settings.get("scheduler.params.decay_step_size") ?? 0,
    momentum: momentumCycle(settings, optimizer),
  };
}

function momentumCycle(settings: Settings, optimizer: OptimizerConfig) {
  const wanted = settings.get("scheduler.params.cycle_momentum");
  if (wanted === false) return undefined;
  if (!("beta1" in optimizer)) {
    if (wanted)
      settings.warn(
        "scheduler.params.cycle_momentum",
        `${optimizer.type} has no betas, so its momentum does not cycle, as in DeepSpeed; use Adam, AdamW or Lion`,
      );
    return undefined;
  }
  return {
    minMomentum: settings.get("scheduler.params.cycle_min_mom") ?? 0.8,
    maxMomentum: settings.get("scheduler.params.cycle_max_mom") ?? 0.9,
    decayRate: settings.get("scheduler.params.decay_mom_rate") ?? 0,
  };
}

function warmupOf(settings: Settings): WarmupConfig {
  return {
    warmupSteps: settings.get("scheduler.params.warmup_num_steps") ?? 1000,
    warmupType: settings.get("scheduler.params.warmup_type") ?? "log",
  };
}

/** What a schedule goes by in place of the optimizer's lr: the key, and its value; undefined where lr itself counts. */
export function rateInsteadOf(schedule: ScheduleConfig | undefined): { key: string; value: number } | undefined {
  switch (schedule?.type) {
    case "WarmupLR":
    case "WarmupDecayLR":
      if (schedule.maxLearningRate === undefined) return undefined;
      return { key: "warmup_max_lr", value: schedule.maxLearningRate };
    case "OneCycle":
      return { key: "cycle_max_lr", value: schedule.maxLearningRate };
    case "LRRangeTest":
      return { key: "lr_range_test_min_lr", value: schedule.minLearningRate };
    default:
      return undefined;
  }
}

/** A parameter that has no default. */
function needed(
  settings: Settings,
  type: ScheduleType,
  name: "total_num_steps" | "cycle_min_lr" | "cycle_max_lr",
  what: string,
): number {
  const path = `scheduler.params.${name}` as const;
  const value = settings.get(path);
  if (value === undefined && settings.placeOf(path) === undefined) settings.error(path, `${type} needs it: ${what}`);
  return value ?? 1;
}
