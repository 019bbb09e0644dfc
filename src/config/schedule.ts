/** The `scheduler` section: each type with its own parameters and DeepSpeed's defaults. */
import type { UsedPath } from "./keys.ts";
import { type Settings, usedPaths } from "./reader.ts";
import type { ScheduleConfig, WarmupConfig } from "./types.ts";

type ScheduleType = ScheduleConfig["type"];
type ParameterPath = Extract<UsedPath, `scheduler.params.${string}`>;

const warmup = ["warmup_num_steps", "warmup_type"] as const;
const range = ["warmup_min_lr", "warmup_max_lr"] as const;
const parametersOf: Readonly<Record<ScheduleType, readonly string[]>> = {
  OneCycle: [],
  WarmupLR: [...warmup, ...range],
  WarmupDecayLR: [...warmup, ...range, "total_num_steps"],
  WarmupCosineLR: [...warmup, "total_num_steps", "warmup_min_ratio", "cos_min_ratio"],
  LRRangeTest: ["min_lr", "step_size", "step_rate", "staircase"].map((name) => `lr_range_test_${name}`),
};

/** @param learningRate the optimizer's: WarmupLR rises to it unless told otherwise */
export function resolveSchedule(settings: Settings, learningRate: number): ScheduleConfig | undefined {
  const type = settings.get("scheduler.type");
  refuseForeignParameters(settings, type);
  switch (type) {
    case undefined:
      return undefined;
    case "WarmupLR":
      return { type, ...warmupOf(settings), ...rangeOf(settings, learningRate) };
    case "WarmupDecayLR":
      return { type, ...warmupOf(settings), ...rangeOf(settings, 1e-3), totalSteps: totalSteps(settings, type) };
    case "WarmupCosineLR":
      return {
        type,
        ...warmupOf(settings),
        totalSteps: totalSteps(settings, type),
        minRatio: settings.get("scheduler.params.warmup_min_ratio") ?? 0,
        cosMinRatio: settings.get("scheduler.params.cos_min_ratio") ?? 1e-4,
      };
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

/** A parameter of another schedule would be obeyed by nobody, and without a type all of them would. */
function refuseForeignParameters(settings: Settings, type: ScheduleType | undefined): void {
  if (type === undefined && settings.isUnreadable("scheduler.type")) return;
  const own = type === undefined ? [] : parametersOf[type];
  const given = usedPaths.filter((path): path is ParameterPath => path.startsWith("scheduler.params."));
  for (const path of given.filter((p) => settings.has(p) && !own.includes(p.slice("scheduler.params.".length))))
    settings.problem(
      path,
      type === undefined
        ? "found without scheduler.type; name a schedule, or remove the section"
        : `${type} has no such parameter; it has ${own.join(", ")}`,
    );
}

function warmupOf(settings: Settings): WarmupConfig {
  return {
    warmupSteps: settings.get("scheduler.params.warmup_num_steps") ?? 1000,
    warmupType: settings.get("scheduler.params.warmup_type") ?? "log",
  };
}

function rangeOf(settings: Settings, maxLearningRate: number): { minLearningRate: number; maxLearningRate: number } {
  return {
    minLearningRate: settings.get("scheduler.params.warmup_min_lr") ?? 0,
    maxLearningRate: settings.get("scheduler.params.warmup_max_lr") ?? maxLearningRate,
  };
}

function totalSteps(settings: Settings, type: ScheduleType): number {
  const path = "scheduler.params.total_num_steps";
  const steps = settings.get(path);
  if (steps === undefined && !settings.isUnreadable(path))
    settings.problem(path, `${type} needs it: the number of optimizer steps of the whole run`);
  return steps ?? 1;
}
