/** Values that DeepSpeed's own schedulers give (recorded from its code): entry k is the rate after its k-th step, k from 1. */
import { expect, test } from "vitest";
import type { ScheduleConfig } from "../../src/config/types.ts";
import { learningRateOf, learningRateRange, momentumOf } from "../../src/optim/schedules.ts";

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
  for (const [i, value] of wanted.entries()) expect(Math.abs(found[i]! - value)).toBeLessThan(1e-9);
}

test("WarmupLR, logarithmic and linear", () => {
  const log: ScheduleConfig = { type: "WarmupLR", warmupType: "log", ...warm };
  expectClose(curve(log, 1, 12), [...logarithmic, 0.2, 0.2]);
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
  for (const [k, rate] of Object.entries(wanted)) expectClose([after(schedule, 0.0015, Number(k) + 1)], [rate]);
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

const oneCycle: ScheduleConfig = {
  type: "OneCycle",
  minLearningRate: 1e-5,
  maxLearningRate: 1e-2,
  decayRate: 1e-3,
  firstStepSize: 10,
  secondStepSize: 10,
  decayStepSize: 10,
  momentum: { minMomentum: 0.08, maxMomentum: 0.09, decayRate: 1e-3 },
};

test("OneCycle: up, down and the decay after it", () => {
  const wanted: Record<number, number> = {
    0: 0.001009,
    4: 0.005005,
    8: 0.009001,
    9: 0.01,
    10: 0.009001,
    14: 0.005005,
    18: 0.001009,
    19: 1e-5,
    20: 1e-5 / 1.0001,
    29: 1e-5 / 1.001,
    39: 1e-5 / 1.002,
  };
  for (const [k, rate] of Object.entries(wanted)) expect(after(oneCycle, 1, Number(k) + 1)).toBeCloseTo(rate, 12);
  expect(learningRateOf(oneCycle, 1, 1)).toBe(1e-5); // before any step of the scheduler
  expect(after({ ...oneCycle, decayStepSize: 0 }, 1, 50)).toBe(1e-5);
  expect(after({ ...oneCycle, decayRate: 0 }, 1, 50)).toBe(1e-5);
});

test("OneCycle: the greatest rate comes at the end of the first half, also of uneven halves", () => {
  for (const [firstStepSize, secondStepSize] of [
    [10, 10],
    [3, 9],
    [1, 1],
    [12, 5],
  ] as const) {
    const schedule = { ...oneCycle, firstStepSize, secondStepSize };
    const rates = curve(schedule, 1, firstStepSize + secondStepSize);
    expect(rates.indexOf(Math.max(...rates))).toBe(firstStepSize - 1);
    expect(rates[firstStepSize - 1]).toBeCloseTo(1e-2, 12);
    expect(rates.at(-1)).toBeCloseTo(1e-5, 12);
  }
});

test("OneCycle: the momentum mirrors the rate, grows after the cycle and stays below 1", () => {
  const momentum = (k: number): number => momentumOf(oneCycle, k + 2)!;
  const wanted: Record<number, number> = {
    0: 0.089,
    4: 0.085,
    8: 0.081,
    9: 0.08,
    10: 0.081,
    18: 0.089,
    19: 0.09,
    20: 0.090009,
    29: 0.09009,
  };
  for (const [k, value] of Object.entries(wanted)) expect(momentum(Number(k))).toBeCloseTo(value, 12);
  expect(momentumOf(oneCycle, 1)).toBe(0.08); // DeepSpeed starts at the least
  const growing = { ...oneCycle, momentum: { minMomentum: 0.8, maxMomentum: 0.9, decayRate: 0.1 } };
  expect(momentumOf(growing, 10_000)).toBeLessThan(1);
  expect(momentumOf({ ...growing, decayStepSize: 0 }, 10_000)).toBe(0.9);
  expect(momentumOf({ ...oneCycle, momentum: undefined }, 5)).toBeUndefined();
  const others = [undefined, { type: "WarmupLR", warmupType: "log", ...warm } as const];
  for (const schedule of others) expect(momentumOf(schedule, 5)).toBeUndefined();
});

// DeepSpeed's own tests of its schedules (T68 to T73), with its sizes.
test.each([10, 15, 19, 33])("a warm-up over %i steps begins at the least rate and then stays at the greatest", (n) => {
  for (const warmupType of ["log", "linear"] as const) {
    const settings = { warmupType, ...warm, warmupSteps: n };
    const rates = curve({ type: "WarmupLR", ...settings }, 1, n + 5);
    expect(rates[0]).toBe(0.1);
    expect(rates.slice(n)).toEqual([0.2, 0.2, 0.2, 0.2, 0.2]);
    for (let k = 1; k < n; k++) expect(rates[k]).toBeGreaterThan(rates[k - 1]!);
    const decaying = curve({ type: "WarmupDecayLR", ...settings, totalSteps: 2 * n }, 1, 2 * n + 1);
    for (let k = n + 1; k <= 2 * n; k++) expect(decaying[k]).toBeLessThan(decaying[k - 1]!);
  }
});

test.each([
  [100, 10, 0.1, 0.2],
  [200, 20, 0.1, 0.2],
  [500, 30, 0, 0.2],
  [600, 300, 0.1, 0],
  [600, 550, 0, 0],
])("a cosine of %i steps after %i of warm-up meets its ends", (totalSteps, warmupSteps, cosMinRatio, minRatio) => {
  const ratios = { totalSteps, warmupSteps, cosMinRatio, minRatio };
  const rates = curve({ type: "WarmupCosineLR", warmupType: "log", ...ratios }, 0.0015, totalSteps + 50);
  const expectNear = (found: number, wanted: number) => expect(Math.abs(found - wanted)).toBeLessThan(1e-9);
  expectNear(rates[0]!, 0.0015 * minRatio);
  expectNear(rates[warmupSteps - 1]!, 0.0015);
  for (const rate of rates.slice(totalSteps - 1)) expectNear(rate, 0.0015 * cosMinRatio);
});

test("the range test never falls, and climbs by stairs of its size", () => {
  const test = { type: "LRRangeTest", minLearningRate: 1e-4, stepSize: 7, stepRate: 0.5, staircase: true } as const;
  const stairs = curve(test, 1, 35);
  expect(stairs[0]).toBe(1e-4);
  expect(new Set(stairs).size).toBe(6);
  const smooth = curve({ ...test, staircase: false }, 1, 35);
  for (let k = 1; k < 35; k++) {
    expect(stairs[k]).toBeGreaterThanOrEqual(stairs[k - 1]!);
    expect(smooth[k]).toBeGreaterThan(smooth[k - 1]!);
  }
});

test("a warm-up without a greatest rate of its own ends at the group's, and a cosine multiplies it", () => {
  const warmup: ScheduleConfig = { type: "WarmupLR", warmupType: "log", ...warm, maxLearningRate: undefined };
  expect([0.1, 0.2].map((own) => after(warmup, own, 20))).toEqual([0.1, 0.2]);
  const cosine: ScheduleConfig = {
    type: "WarmupCosineLR",
    warmupType: "linear",
    ...{ totalSteps: 20, warmupSteps: 4, minRatio: 0, cosMinRatio: 0 },
  };
  for (const k of [2, 4, 9, 15]) expect(after(cosine, 0.3, k)).toBeCloseTo(3 * after(cosine, 0.1, k), 12);
});

test("the range of a run is that of all its updates", () => {
  const optimizer = {
    type: "SGD",
    learningRate: 0.3,
    weightDecay: 0,
    momentum: 0,
    dampening: 0,
    nesterov: false,
  } as const;
  const warmup = { warmupSteps: 10, minLearningRate: 0.1, maxLearningRate: 0.2 };
  const schedules: (ScheduleConfig | undefined)[] = [
    undefined,
    oneCycle,
    { ...oneCycle, minLearningRate: 1e-2, maxLearningRate: 1e-5 } as ScheduleConfig,
    { ...oneCycle, secondStepSize: 0 } as ScheduleConfig,
    { type: "LRRangeTest", minLearningRate: 1e-3, stepSize: 7, stepRate: 1, staircase: true },
    ...(["log", "linear"] as const).flatMap((warmupType): ScheduleConfig[] => [
      { ...warmup, type: "WarmupLR", warmupType },
      { ...warmup, type: "WarmupDecayLR", warmupType, totalSteps: 30 },
      { type: "WarmupCosineLR", warmupSteps: 10, warmupType, totalSteps: 30, minRatio: 0, cosMinRatio: 0.1 },
    ]),
  ];
  for (const schedule of schedules)
    for (const steps of [1, 2, 10, 11, 12, 13, 20, 21, 22, 29, 60]) {
      const rates = Array.from({ length: steps }, (_, i) => learningRateOf(schedule, 0.3, i + 1));
      expect(learningRateRange({ schedule, optimizer }, steps)).toEqual({
        first: rates[0],
        lowest: Math.min(...rates),
        highest: Math.max(...rates),
        last: rates.at(-1),
      });
    }
});
