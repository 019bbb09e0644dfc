/**
 * Learning-rate schedules with DeepSpeed's names and values. DeepSpeed steps its scheduler after each update that was not
 * skipped: so the first update uses what the schedule gives before any step, and update u + 1 what it gives at iteration u - 1.
 *
 * Its oddities before the first step are kept, so that a run goes as it does there: WarmupCosineLR makes the first update with
 * rate 0 whatever its least ratio, and OneCycle with the least momentum although its cycle begins at the greatest. Not kept:
 * that OneCycle sets Adam's beta2 to 0.99 where it cycles the momentum.
 */
import type { ResolvedConfig, ScheduleConfig, WarmupConfig } from "../config/types.ts";

type OneCycleConfig = Extract<ScheduleConfig, { type: "OneCycle" }>;

/** @param update the number of the update, from 1 @param baseLearningRate the optimizer's own, or the parameter group's */
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
      return oneCycleRate(schedule, iteration);
    default:
      return schedule satisfies never;
  }
}

/**
 * The momentum of an update (from 1), in place of SGD's momentum and of Adam's and Lion's beta1; undefined: the optimizer's own.
 * It mirrors the learning rate. Its decay makes it grow, and Adam knows no beta1 of 1: there it stays just below.
 */
export function momentumOf(schedule: ScheduleConfig | undefined, update: number): number | undefined {
  if (schedule?.type !== "OneCycle" || !schedule.momentum) return undefined;
  const { minMomentum, maxMomentum, decayRate } = schedule.momentum;
  const iteration = update - 2;
  if (iteration < 0) return minMomentum;
  const share = cycleShare(schedule, iteration);
  if (share !== undefined) return between(maxMomentum, minMomentum, share);
  return Math.min(greatestMomentum, maxMomentum * (1 + decayRate * decayIntervals(schedule, iteration)));
}

/** Where the learning rate goes in a run. */
export interface LearningRateRange {
  readonly first: number;
  readonly lowest: number;
  readonly highest: number;
  readonly last: number;
}

/**
 * The rates that a run of `steps` updates really has, of the optimizer's own parameters (groups may have others).
 * @param config of a run whose length is known, so that no schedule waits for it
 */
export function learningRateRange(
  { schedule, optimizer }: Pick<ResolvedConfig, "schedule" | "optimizer">,
  steps: number,
): LearningRateRange {
  const updates = [1, ...turns(schedule), steps].filter((update) => update <= steps);
  const rates = updates.map((update) => learningRateOf(schedule, optimizer.learningRate, update));
  return { first: rates[0]!, lowest: Math.min(...rates), highest: Math.max(...rates), last: rates.at(-1)! };
}

/** Updates between which the rate only rises or only falls. */
function turns(schedule: ScheduleConfig | undefined): number[] {
  if (schedule === undefined || schedule.type === "LRRangeTest") return [];
  if (schedule.type === "OneCycle") {
    const { firstStepSize, secondStepSize } = schedule;
    return [firstStepSize + 1, firstStepSize + secondStepSize, firstStepSize + secondStepSize + 1];
  }
  const end = warmupSteps(schedule);
  return [end + 1, end + 2];
}

const greatestMomentum = 0.9999;

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

function oneCycleRate(config: OneCycleConfig, iteration: number): number {
  const share = cycleShare(config, iteration);
  if (share !== undefined) return between(config.minLearningRate, config.maxLearningRate, share);
  return config.minLearningRate / (1 + config.decayRate * decayIntervals(config, iteration));
}

/** From 0 up to 1 over the first half of the cycle and back over the second (Smith 2018); undefined after it. */
function cycleShare({ firstStepSize, secondStepSize }: OneCycleConfig, iteration: number): number | undefined {
  const cycleSize = firstStepSize + secondStepSize;
  if (iteration >= cycleSize) return undefined;
  const place = (iteration + 1) % cycleSize;
  return place <= firstStepSize ? place / firstStepSize : (cycleSize - place) / secondStepSize;
}

/** How often the decay after the cycle has run its length; 0 without one. */
function decayIntervals({ firstStepSize, secondStepSize, decayStepSize }: OneCycleConfig, iteration: number): number {
  return decayStepSize > 0 ? (iteration - (firstStepSize + secondStepSize) + 1) / decayStepSize : 0;
}
