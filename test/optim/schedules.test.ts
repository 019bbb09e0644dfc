/** Values that DeepSpeed's own schedulers give (recorded from its code): entry k is the rate after its k-th step, k from 1. */
import { expect, test } from "vitest";
import type { ScheduleConfig } from "../../src/config/types.ts";
import { learningRateOf } from "../../src/optim/schedules.ts";

/** After k steps of the scheduler, update k + 1 is made. */
const after = (schedule: ScheduleConfig, base: number, k: number): number => learningRateOf(schedule, base, k + 1);
const curve = (schedule: ScheduleConfig, base: number, steps: number): number[] =>
  Array.from({ length: steps }, (_, i) => after(schedule, base, i + 1));

const warm = { minLearningRate: 0.1, maxLearningRate: 0.2, warmupSteps: 10 } as const;
const logarithmic = [
  0.1, 0.130103, 0.147712125, 0.160205999, 0.169897, 0.177815125, 0.184509804, 0.190308999, 0.195424251, 0.2,
];

function expectClose(found: readonly number[], wanted: readonly number[]): void {
  expect(found).toHaveLength(wanted.length);
  for (const [i, value] of wanted.entries()) expect(found[i]).toBeCloseTo(value, 9);
}

test("WarmupLR, logarithmic and linear", () => {
  const log: ScheduleConfig = { type: "WarmupLR", warmupType: "log", ...warm };
  const rounded = curve(log, 1, 12).map((rate) => Number(rate.toFixed(6)));
  const wanted = [...logarithmic, 0.2, 0.2].map((rate) => Number(rate.toFixed(6)));
  expect(rounded).toEqual(wanted);
  const linear: ScheduleConfig = { ...log, warmupType: "linear" };
  expectClose(curve(linear, 1, 12), [0.1, 0.11, 0.12, 0.13, 0.14, 0.15, 0.16, 0.17, 0.18, 0.19, 0.2, 0.2]);
  expect(learningRateOf(log, 1, 1)).toBe(0.1); // before any step of the scheduler
});

test("WarmupDecayLR ends at the warm-up's least rate", () => {
  const schedule: ScheduleConfig = { type: "WarmupDecayLR", warmupType: "log", totalSteps: 20, ...warm };
  const decaying = [0.2, 0.19, 0.18, 0.17, 0.16, 0.15, 0.14, 0.13, 0.12, 0.11, 0.1, 0.1];
  expectClose(curve(schedule, 1, 22).slice(10), decaying);
  const linear: ScheduleConfig = {
    type: "WarmupDecayLR",
    warmupType: "linear",
    totalSteps: 10,
    minLearningRate: 0,
    maxLearningRate: 0.001,
    warmupSteps: 5,
  };
  const tent = [0, 0.0002, 0.0004, 0.0006, 0.0008, 0.001, 0.0008, 0.0006, 0.0004, 0.0002, 0, 0];
  expectClose(curve(linear, 1, 12), tent);
});

test("WarmupCosineLR", () => {
  const schedule: ScheduleConfig = {
    type: "WarmupCosineLR",
    warmupType: "log",
    totalSteps: 100,
    warmupSteps: 10,
    minRatio: 0.2,
    cosMinRatio: 0.1,
  };
  const wanted: Record<number, number> = {
    0: 0.0003,
    1: 0.000661236,
    4: 0.001138764,
    8: 0.001445091,
    9: 0.0015,
    10: 0.001499589,
    11: 0.001498356,
    32: 0.001293894,
    54: 0.000825,
    77: 0.000339446,
    98: 0.000150411,
    99: 0.00015,
    200: 0.00015,
  };
  for (const [k, rate] of Object.entries(wanted)) expect(after(schedule, 0.0015, Number(k) + 1)).toBeCloseTo(rate, 8);
  expect(learningRateOf(schedule, 0.0015, 1)).toBe(0);
});

test("LRRangeTest, continuous and by stairs", () => {
  const smooth: ScheduleConfig = {
    type: "LRRangeTest",
    minLearningRate: 1e-3,
    stepSize: 10,
    stepRate: 1e-3,
    staircase: false,
  };
  expectClose(
    [1, 2, 10, 11].map((k) => after(smooth, 1, k)),
    [0.0010001, 0.0010002, 0.001001, 0.0010011],
  );
  const stairs = { ...smooth, minLearningRate: 1e-4, staircase: true };
  expectClose(
    [1, 9, 10, 19, 20].map((k) => after(stairs, 1, k)),
    [1e-4, 1e-4, 1.001e-4, 1.001e-4, 1.002e-4],
  );
});

test("without a schedule the rate is the optimizer's", () => {
  expect(learningRateOf(undefined, 3e-4, 1000)).toBe(3e-4);
});
