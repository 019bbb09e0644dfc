/**
 * Learning-rate schedules with DeepSpeed's names and values. DeepSpeed steps its scheduler after each update that was not
 * skipped: so the first update uses what the schedule gives before any step, and update u + 1 what it gives at iteration u - 1.
 */
import type { ScheduleConfig, WarmupConfig } from "../config/types.ts";
import { UsageError } from "../errors/errors.ts";

/** @param update the number of the update, from 1 @param baseLearningRate the optimizer's own */
export function learningRateOf(schedule: ScheduleConfig | undefined, baseLearningRate: number, update: number): number {
  if (!schedule) return baseLearningRate;
  const iteration = update - 2;
  switch (schedule.type) {
    case "WarmupLR":
      return between(
        schedule.minLearningRate,
        schedule.maxLearningRate ?? baseLearningRate,
        warmup(schedule, iteration) ?? 1,
      );
    case "WarmupDecayLR": {
      const share = warmup(schedule, iteration) ?? decay(schedule.totalSteps, warmupSteps(schedule), iteration);
      return between(schedule.minLearningRate, schedule.maxLearningRate, share);
    }
    case "WarmupCosineLR":
      return iteration < 0 ? 0 : baseLearningRate * cosineRatio(schedule, iteration);
    case "LRRangeTest": {
      const cycles = (iteration + 1) / schedule.stepSize;
      return schedule.minLearningRate * (1 + schedule.stepRate * (schedule.staircase ? Math.floor(cycles) : cycles));
    }
    case "OneCycle":
      throw new UsageError("scheduler OneCycle is not in this version");
    default:
      return schedule satisfies never;
  }
}

const between = (low: number, high: number, share: number): number => low + (high - low) * share;

/** DeepSpeed warms up over two steps at least. */
const warmupSteps = (warmup: WarmupConfig): number => Math.max(2, warmup.warmupSteps);

/** How far the warm-up has come, 0 to 1; undefined after it. Before the first iteration it has not begun. */
function warmup(config: WarmupConfig, iteration: number): number | undefined {
  const steps = warmupSteps(config);
  if (iteration < 0) return 0;
  if (iteration >= steps) return undefined;
  return config.warmupType === "log" ? Math.log(iteration + 1) / Math.log(steps) : iteration / steps;
}

/** Linearly from 1 at the end of the warm-up to 0 at the last step. */
const decay = (totalSteps: number, warmupEnd: number, iteration: number): number =>
  Math.max(0, (totalSteps - iteration) / Math.max(1, totalSteps - warmupEnd));

function cosineRatio(config: Extract<ScheduleConfig, { type: "WarmupCosineLR" }>, iteration: number): number {
  const share = warmup(config, iteration);
  if (share !== undefined) return between(config.minRatio, 1, share);
  const steps = warmupSteps(config);
  const progress = Math.min(1, (iteration - steps + 1) / Math.max(1, config.totalSteps - steps));
  return between(config.cosMinRatio, 1, (1 + Math.cos(Math.PI * progress)) / 2);
}
