import { describe, expect, test } from "vitest";
import { parseConfigObject } from "../../src/config/json.ts";
import { examineConfig } from "../../src/config/resolve.ts";

const examine = (scheduler: unknown, optimizer: object = { type: "AdamW", params: { lr: 0.01 } }) => {
  const { config, problems } = examineConfig({
    file: parseConfigObject({ train_batch_size: 2, optimizer, scheduler }),
    worldSize: 2,
  });
  return { config, told: problems.map((p) => `${p.level} ${p.path}: ${p.message}`).join("\n") };
};
const scheduled = (scheduler: object, optimizer?: object) => examine(scheduler, optimizer).config?.schedule;

describe("DeepSpeed's defaults", () => {
  const warmup = { warmupSteps: 1000, warmupType: "log" };
  test.each([
    [{ type: "WarmupLR" }, { ...warmup, type: "WarmupLR", minLearningRate: 0, maxLearningRate: undefined }],
    [
      { type: "WarmupDecayLR", params: { total_num_steps: 9, warmup_num_steps: 3, warmup_type: "linear" } },
      {
        type: "WarmupDecayLR",
        minLearningRate: 0,
        maxLearningRate: 1e-3,
        warmupSteps: 3,
        warmupType: "linear",
        totalSteps: 9,
      },
    ],
    [
      { type: "WarmupCosineLR", params: { total_num_steps: 2000 } },
      { ...warmup, type: "WarmupCosineLR", totalSteps: 2000, minRatio: 0, cosMinRatio: 1e-4 },
    ],
    [
      { type: "LRRangeTest" },
      { type: "LRRangeTest", minLearningRate: 1e-3, stepSize: 2000, stepRate: 1, staircase: false },
    ],
    [
      { type: "OneCycle", params: { cycle_min_lr: 1e-5, cycle_max_lr: 1e-2 } },
      {
        type: "OneCycle",
        minLearningRate: 1e-5,
        maxLearningRate: 1e-2,
        decayRate: 0,
        firstStepSize: 2000,
        secondStepSize: 2000,
        decayStepSize: 0,
        momentum: { minMomentum: 0.8, maxMomentum: 0.9, decayRate: 0 },
      },
    ],
  ])("%j", (scheduler, wanted) => {
    expect(scheduled(scheduler)).toEqual(wanted);
  });
});

test("OneCycle with every parameter, and with a momentum that stays", () => {
  const params = {
    cycle_min_lr: 1e-5,
    cycle_max_lr: 1e-2,
    decay_lr_rate: 1e-3,
    cycle_first_step_size: 10,
    cycle_second_step_size: 0,
    decay_step_size: 7,
    cycle_min_mom: 0.08,
    cycle_max_mom: 0.09,
    decay_mom_rate: -1e-3,
  };
  expect(scheduled({ type: "OneCycle", params })).toEqual({
    type: "OneCycle",
    minLearningRate: 1e-5,
    maxLearningRate: 1e-2,
    decayRate: 1e-3,
    firstStepSize: 10,
    secondStepSize: 0,
    decayStepSize: 7,
    momentum: { minMomentum: 0.08, maxMomentum: 0.09, decayRate: -1e-3 },
  });
  expect(scheduled({ type: "OneCycle", params: { ...params, cycle_momentum: false } })).toMatchObject({
    momentum: undefined,
  });
  const sgd = examine(
    { type: "OneCycle", params: { ...params, cycle_momentum: true } },
    { type: "SGD", params: { lr: 1 } },
  );
  expect(sgd.config?.schedule).toMatchObject({ momentum: undefined });
  expect(sgd.told).toMatch(/warning scheduler\.params\.cycle_momentum: SGD has no betas/);
});

test("no schedule: left out, null, or a null type", () => {
  for (const scheduler of [undefined, null, { type: null }]) expect(scheduled(scheduler as object)).toBeUndefined();
});

test.each([
  [{ type: "WarmupLR", params: { warmup_num_steps: 0 } }, /warmup_num_steps: found 0; wanted a positive whole number/],
  [{ type: "WarmupLR", params: { warmup_num_steps: -1 } }, /warmup_num_steps: found -1/],
  [{ type: "WarmupLR", params: { warmup_num_steps: 1.5 } }, /warmup_num_steps: found 1\.5/],
  [{ type: "WarmupLR", params: { warmup_type: "cubic" } }, /warmup_type: found "cubic"; wanted "log" or "linear"/],
  [{ type: "OneCycle", params: { cycle_max_lr: 1 } }, /cycle_min_lr: OneCycle needs it/],
  [{ type: "OneCycle", params: { cycle_min_lr: 1 } }, /cycle_max_lr: OneCycle needs it/],
  [
    { type: "OneCycle", params: { cycle_min_lr: 1, cycle_max_lr: 1, cycle_first_step_size: 0 } },
    /cycle_first_step_size: found 0/,
  ],
  [
    { type: "OneCycle", params: { cycle_min_lr: 1, cycle_max_lr: 1, cycle_second_step_size: -1 } },
    /second_step_size: found -1/,
  ],
  [{ type: "LRRangeTest", params: { lr_range_test_step_size: 0 } }, /lr_range_test_step_size: found 0/],
  [{ type: "WarmupCosineLR" }, /total_num_steps: WarmupCosineLR needs it/],
  [
    { type: "WarmupLR", params: { cos_min_ratio: 0.1 } },
    /cos_min_ratio: WarmupLR has no such parameter; it has warmup_num_steps/,
  ],
  [{ type: "WarmupLR", params: { warmup_steps: 1 } }, /warmup_steps: WarmupLR has no such parameter/],
  [{ params: { warmup_num_steps: 5 } }, /warmup_num_steps: found without scheduler\.type/],
  [
    { type: "CosineAnnealingLR", params: { T_max: 4 } },
    /CosineAnnealingLR is a schedule that this version does not have .*WarmupCosineLR/,
  ],
  [{ type: "WarmupLr2" }, /found "WarmupLr2"; wanted a schedule: .*did you mean WarmupLR\?/],
])("%j is refused", (scheduler, wanted) => {
  const { config, told } = examine(scheduler);
  expect(config).toBeUndefined();
  expect(told).toMatch(wanted);
});
