import { expect, test } from "vitest";
import { parseConfigObject } from "../../src/config/json.ts";
import { examineConfig } from "../../src/config/resolve.ts";

const model = { name: "m", hiddenSize: 64, parameterElements: 1_000_000 };
const warnings = (config: object, known: { model?: typeof model; steps?: number } = {}) => {
  const { model: given, steps } = known;
  const examined = examineConfig({
    file: parseConfigObject({ train_micro_batch_size_per_gpu: 1, optimizer: { type: "Adam" }, ...config }),
    worldSize: 2,
    model: given,
    stepsOf: steps === undefined ? undefined : () => steps,
  });
  expect(examined.config).toBeDefined();
  return examined.problems.map((p) => `${p.path}: ${p.message}`).join("\n");
};
const zero = (zero_optimization: object) => ({ zero_optimization });
const fp16 = { fp16: { enabled: true } };
const warmup = (warmup_num_steps: number, total?: number) => ({
  scheduler: {
    type: total === undefined ? "WarmupLR" : "WarmupCosineLR",
    params: { warmup_num_steps, ...(total !== undefined && { total_num_steps: total }) },
  },
});
const ratio = { stage: 3, offload_optimizer: { device: "cpu", ratio: 0.5 }, sub_group_size: 500_000 };

/** Each: what hurts, what is said, and the same without the hurt, of which nothing is said. */
const cases: readonly [
  hurts: object,
  wanted: RegExp,
  well: object,
  known?: { model?: typeof model; steps?: number },
][] = [
  [
    zero({ stage: 2, reduce_bucket_size: 5e8 }),
    /reduce_bucket_size: 500000000 elements, and the whole model has 1000000/,
    zero({ stage: 2, reduce_bucket_size: 1e6 }),
    { model },
  ],
  [
    zero({ stage: 1, allgather_bucket_size: 5e8 }),
    /allgather_bucket_size: 500000000 elements/,
    zero({ stage: 0, allgather_bucket_size: 5e8 }),
    { model },
  ],
  [
    zero({ stage: 2, reduce_bucket_size: 1 }),
    /reduce_bucket_size: a reduction of 1 element means/,
    zero({ stage: 2, reduce_bucket_size: 1024 }),
  ],
  [
    zero({ allgather_bucket_size: 1001 }),
    /1001 is odd, which is fine here and refused by DeepSpeed/,
    zero({ allgather_bucket_size: 1000 }),
  ],
  [
    { ...fp16, gradient_accumulation_steps: 8 },
    /gradients of 8 micro-batches are added in fp16/,
    { ...fp16, gradient_accumulation_steps: 7 },
  ],
  [
    { bf16: { enabled: true }, gradient_accumulation_steps: 8 },
    /added in bf16.*grad_accum_dtype": "fp32"/,
    { bf16: { enabled: true }, gradient_accumulation_steps: 8, data_types: { grad_accum_dtype: "fp32" } },
  ],
  [{ ...fp16, gradient_clipping: 0 }, /gradient_clipping: 0: no clipping/, { gradient_clipping: 0 }],
  [
    zero({ stage: 3, stage3_param_persistence_threshold: 1e9 }),
    /tensors up to 1000000000 elements stay whole/,
    zero({ stage: 3, stage3_param_persistence_threshold: 1e6 }),
  ],
  [
    zero({ stage: 3, stage3_param_persistence_threshold: 4096 }),
    /tensors up to 4096 elements stay whole/,
    zero({ stage: 3, stage3_param_persistence_threshold: 640 }),
    { model },
  ],
  [
    zero({ stage: 2, stage3_max_live_parameters: 1, sub_group_size: 5 }),
    /stage3_max_live_parameters: for stage 3, and the stage is 2: without effect, nor zero_optimization\.sub_group_size/,
    zero({ stage: 3, stage3_max_live_parameters: 1 }),
  ],
  [zero({ stage: 1, reduce_scatter: false }), /the same sums with half the traffic/, zero({ reduce_scatter: false })],
  [warmup(10), /a warm-up of 10 steps, and the run has 10/, warmup(9), { steps: 10 }],
  [warmup(10, 8), /a warm-up of 10 steps, and the run has 8/, warmup(10, 80)],
];

const rated = (scheduler: object, lr = 0.01, groups?: object) => ({
  optimizer: { type: "AdamW", params: { lr } },
  scheduler,
  ...(groups && { shunya: { parameter_groups: groups } }),
});
const decay = { total_num_steps: 9000 };
const cycle = { cycle_min_lr: 1e-4, cycle_max_lr: 0.01 };
const biases = [
  { match: "*.bias", lr: 0.5 },
  { match: "*", weight_decay: 0 },
];
/** Each: a schedule with rates of its own, and the same where lr acts or agrees. */
const rateCases: readonly [hurts: object, wanted: RegExp, well: object][] = [
  [
    rated({ type: "WarmupDecayLR", params: decay }),
    /^optimizer\.params\.lr: 0\.01 has no effect: WarmupDecayLR goes by warmup_max_lr, which is 0\.001; set scheduler\.params\.warmup_max_lr, or remove lr$/,
    rated({ type: "WarmupDecayLR", params: { ...decay, warmup_max_lr: 0.01 } }),
  ],
  [
    rated({ type: "WarmupLR", params: { warmup_max_lr: 0.02 } }),
    /lr: 0\.01 has no effect: WarmupLR goes by warmup_max_lr, which is 0\.02/,
    rated({ type: "WarmupLR" }),
  ],
  [
    rated({ type: "OneCycle", params: cycle }, 0.5),
    /lr: 0\.5 has no effect: OneCycle goes by cycle_max_lr, which is 0\.01/,
    rated({ type: "OneCycle", params: cycle }),
  ],
  [
    rated({ type: "LRRangeTest" }),
    /LRRangeTest goes by lr_range_test_min_lr, which is 0\.001/,
    rated({ type: "LRRangeTest", params: { lr_range_test_min_lr: 0.01 } }),
  ],
  [
    rated({ type: "WarmupLR", params: { warmup_max_lr: 0.01 } }, 0.01, biases),
    /^shunya\.parameter_groups: group 1's lr 0\.5: no effect, since WarmupLR gives every parameter the same rate/,
    rated({ type: "WarmupLR" }, 0.01, biases),
  ],
  [
    { ...rated({ type: "WarmupLR" }), optimizer: { type: "SGD" } },
    /^optimizer\.params\.lr: left out: 0\.001 is used, as in PyTorch$/,
    { ...rated({ type: "OneCycle", params: cycle }), optimizer: { type: "SGD" } },
  ],
  [
    rated({ type: "WarmupLR", params: { warmup_min_lr: 0.02 } }),
    /warmup_min_lr: 0\.02, and the warm-up ends at 0\.01: the rate falls/,
    rated({ type: "WarmupLR", params: { warmup_min_lr: 0.01 } }),
  ],
  [
    rated({ type: "OneCycle", params: { cycle_min_lr: 0.1, cycle_max_lr: 0.01 } }),
    /cycle_max_lr: 0\.01, and cycle_min_lr is 0\.1: the rate falls first/,
    rated({ type: "OneCycle", params: { cycle_min_lr: 0.01, cycle_max_lr: 0.01 } }),
  ],
  [
    rated({ type: "OneCycle", params: { ...cycle, decay_lr_rate: 0.1, decay_mom_rate: 0.1 } }),
    /decay_lr_rate: no effect, nor decay_mom_rate: decay_step_size is 0/,
    rated({ type: "OneCycle", params: { ...cycle, decay_lr_rate: 0.1, decay_step_size: 1 } }),
  ],
  [
    rated({ type: "OneCycle", params: { ...cycle, cycle_first_stair_count: 4, cycle_second_stair_count: 2 } }),
    /cycle_first_stair_count: has no effect here, nor scheduler\.params\.cycle_second_stair_count: the cycle has no stairs/,
    rated({ type: "OneCycle", params: { ...cycle, cycle_first_stair_count: 0 } }),
  ],
];

test.each(rateCases)("%j", (hurts, wanted, well) => {
  expect(warnings(hurts)).toMatch(wanted);
  expect(warnings(well)).toBe("");
});

test("a learning rate given as a flag acts or is refused", () => {
  const examined = (params: object) =>
    examineConfig({
      file: parseConfigObject({
        train_batch_size: 2,
        optimizer: { type: "AdamW" },
        scheduler: { type: "WarmupDecayLR", params },
      }),
      overrides: [["optimizer.params.lr", 0.5]],
      worldSize: 2,
    });
  const refused = examined(decay);
  expect(refused.config).toBeUndefined();
  expect(refused.problems.map((p) => `${p.level} ${p.path}: ${p.message}`)).toEqual([
    "error optimizer.params.lr: 0.5 has no effect: WarmupDecayLR goes by warmup_max_lr, which is 0.001; give --set scheduler.params.warmup_max_lr=0.5 too, or drop the flag",
  ]);
  for (const warmup_max_lr of [0.5, "auto"]) {
    const { config, problems } = examined({ ...decay, warmup_max_lr });
    expect(problems).toEqual([]);
    expect(config?.schedule).toMatchObject({ maxLearningRate: 0.5 });
  }
});

test("what a schedule lacks is told alone", () => {
  const told = (type: string) =>
    examineConfig({
      file: parseConfigObject({ train_batch_size: 2, ...rated({ type, params: {} }, 0.5) }),
      worldSize: 2,
    }).problems.map((p) => p.message);
  expect(told("WarmupCosineLR")).toEqual([expect.stringMatching(/^WarmupCosineLR needs it/)]);
  expect(told("OneCycle")).toEqual([expect.stringMatching(/needs it/), expect.stringMatching(/needs it/)]);
});

test.each(cases)("%j", (hurts, wanted, well, known) => {
  expect(warnings(hurts, known)).toMatch(wanted);
  expect(warnings(well, known)).toBe("");
});

test("a share of one sub-group", () => {
  expect(warnings(zero(ratio), { model })).toMatch(/ratio: it counts sub-groups, and the whole shard is one/);
  expect(warnings(zero({ ...ratio, sub_group_size: 1000 }), { model })).not.toMatch(/counts sub-groups/);
});

test("keys below their stage are told once, and not where a flag gives the stage", () => {
  const { problems } = examineConfig({
    file: parseConfigObject({
      train_batch_size: 2,
      optimizer: { type: "Adam" },
      ...zero({ stage: 0, max_live_parameters: 5 }),
    }),
    overrides: [["zero_optimization.stage", 3]],
    worldSize: 2,
  });
  expect(problems).toEqual([]);
});
