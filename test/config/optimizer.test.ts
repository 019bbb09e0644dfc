import { describe, expect, test } from "vitest";
import { parseConfigObject } from "../../src/config/json.ts";
import { examineConfig } from "../../src/config/resolve.ts";

const examine = (optimizer: unknown, more: object = {}) => {
  const { config, problems } = examineConfig({
    file: parseConfigObject({ train_batch_size: 2, optimizer, ...more }),
    worldSize: 2,
  });
  return { config, told: problems.map((p) => `${p.level} ${p.path}: ${p.message}`).join("\n") };
};

test.each([
  [
    "Adam",
    {
      type: "AdamW",
      learningRate: 1e-3,
      beta1: 0.9,
      beta2: 0.999,
      epsilon: 1e-8,
      weightDecay: 0,
      biasCorrection: true,
    },
  ],
  [
    "adamw",
    {
      type: "AdamW",
      learningRate: 1e-3,
      beta1: 0.9,
      beta2: 0.999,
      epsilon: 1e-8,
      weightDecay: 0,
      biasCorrection: true,
    },
  ],
  ["LION", { type: "Lion", learningRate: 1e-3, beta1: 0.9, beta2: 0.999, weightDecay: 0 }],
  ["sgd", { type: "SGD", learningRate: 1e-3, momentum: 0, dampening: 0, nesterov: false, weightDecay: 0 }],
  [
    "Adagrad",
    {
      type: "Adagrad",
      learningRate: 1e-2,
      epsilon: 1e-10,
      learningRateDecay: 0,
      initialAccumulator: 0,
      weightDecay: 0,
    },
  ],
])("%s has its library's defaults", (type, wanted) => {
  expect(examine({ type }).config?.optimizer).toEqual(wanted);
});

test("every parameter arrives", () => {
  const optimizer = (type: string, params: object) => examine({ type, params }).config?.optimizer;
  expect(optimizer("Lion", { lr: 0.5, betas: [0.1, 0.2], weight_decay: 0.3 })).toEqual({
    type: "Lion",
    learningRate: 0.5,
    beta1: 0.1,
    beta2: 0.2,
    weightDecay: 0.3,
  });
  expect(optimizer("SGD", { lr: 0.5, momentum: 0.9, nesterov: true, weight_decay: 0.3 })).toEqual({
    type: "SGD",
    learningRate: 0.5,
    momentum: 0.9,
    dampening: 0,
    nesterov: true,
    weightDecay: 0.3,
  });
  expect(optimizer("Adagrad", { lr: 0.5, eps: 1e-3, lr_decay: 0.1, initial_accumulator_value: 0.2 })).toEqual({
    type: "Adagrad",
    learningRate: 0.5,
    weightDecay: 0,
    epsilon: 1e-3,
    learningRateDecay: 0.1,
    initialAccumulator: 0.2,
  });
  expect(optimizer("Adam", { bias_correction: false, adam_w_mode: false, eps: 0 })).toMatchObject({
    type: "Adam",
    biasCorrection: false,
    epsilon: 0,
  });
});

test("SGD without a learning rate says which one it takes", () => {
  expect(examine({ type: "SGD" }).told).toMatch(
    /warning optimizer\.params\.lr: left out: 0\.001 is used, as in PyTorch/,
  );
});

describe("refused", () => {
  test.each([
    [
      { type: "Lion", params: { eps: 1e-8 } },
      /error optimizer\.params\.eps: Lion has no such parameter; it has lr, betas, weight_decay/,
    ],
    [{ type: "SGD", params: { betas: [0.9, 0.99] } }, /SGD has no such parameter; it has lr, momentum/],
    [{ type: "Adam", params: { momentum: 0.9 } }, /Adam has no such parameter/],
    [
      { type: "Adam", params: { weigth_decay: 0.9 } },
      /optimizer\.params\.weigth_decay: Adam has no such parameter; .*did you mean weight_decay\?/,
    ],
    [{ type: "SGD", params: { nesterov: true } }, /Nesterov's momentum needs momentum above 0 and dampening 0/],
    [{ type: "SGD", params: { nesterov: true, momentum: 0.9, dampening: 0.1 } }, /Nesterov's momentum needs/],
    [
      { type: "Adam", params: { amsgrad: true } },
      /amsgrad: found true; wanted false: DeepSpeed's Adam refuses amsgrad too/,
    ],
    [{ type: "Adam", params: { max_grad_norm: 1 } }, /max_grad_norm: .*write gradient_clipping at the top level/],
    [{ type: "Adam", params: { betas: [0.9] } }, /found \[0\.9\]; wanted a list of two/],
    [{ type: "Adam", params: { betas: [0.9, 1] } }, /from 0 to below 1/],
    [{ type: "OnebitAdam" }, /OneBitAdam is an optimizer that this version does not have .*use AdamW/],
    [{ type: "lamb" }, /Lamb is an optimizer .*norms are per layer/],
    [{ type: "FusedAdam" }, /every optimizer here is fused; write Adam/],
    [{ type: "Adan" }, /found "Adan"; wanted an optimizer: Adam, AdamW, Lion, SGD, Adagrad; did you mean Adam\?/],
    [{ type: "zzz" }, /found "zzz"; wanted an optimizer: [^?]*$/m],
    [{ type: 3 }, /found 3; wanted "Adam"/],
  ])("%j", (optimizer, wanted) => {
    const { config, told } = examine(optimizer);
    expect(config).toBeUndefined();
    expect(told).toMatch(wanted);
  });

  test("once: parameters of a type that is not here are only named", () => {
    const { told } = examine({ type: "Muon", params: { muon_lr: 1, ns_method: "gram", lr: 1 } });
    expect(told.match(/^error/gm)).toHaveLength(1);
    expect(told).toMatch(/warning optimizer\.params: not looked at.*muon_lr, ns_method/);
  });
});

describe("parameter groups", () => {
  const groups = (parameter_groups: unknown) => examine({ type: "AdamW" }, { shunya: { parameter_groups } });

  test("by one pattern or several, with what they change", () => {
    expect(
      groups([
        { match: "*.bias", weight_decay: 0 },
        { match: ["wte*", "wpe*"], lr: 1e-5 },
      ]).config?.parameterGroups,
    ).toEqual([
      { match: ["*.bias"], learningRate: undefined, weightDecay: 0 },
      { match: ["wte*", "wpe*"], learningRate: 1e-5, weightDecay: undefined },
    ]);
    expect(groups(null).config?.parameterGroups).toEqual([]);
  });

  test.each([
    [{}, /found an object \{ \.\.\. \}; wanted a list of groups/],
    [[3], /group 1: found 3; wanted an object/],
    [[{ lr: 1 }], /group 1: wanted "match"/],
    [[{ match: [] }], /group 1: wanted "match"/],
    [[{ match: "" }], /group 1: wanted "match"/],
    [[{ match: "*" }, { match: "*", lr: -1 }], /group 2: lr: found -1; wanted a number from 0 on/],
    [[{ match: "*", wd: 1 }], /group 1: unknown key wd; known are match, lr, weight_decay/],
  ])("%j is refused", (value, wanted) => {
    expect(groups(value).told).toMatch(wanted);
  });
});
