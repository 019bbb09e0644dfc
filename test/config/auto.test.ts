import { describe, expect, test } from "vitest";
import { parseConfigObject } from "../../src/config/json.ts";
import { examineConfig, type Override, resolveConfig } from "../../src/config/resolve.ts";

interface Known {
  readonly overrides?: readonly Override[];
  readonly model?: { readonly name: string; readonly hiddenSize: number };
  readonly stepsOf?: (trainBatch: number) => number | undefined;
  readonly worldSize?: number;
}

const examine = (config: object, known: Known = {}) => {
  const input = { worldSize: 2, ...known, file: parseConfigObject(config, "ds.json") };
  const { config: resolved, problems } = examineConfig(input);
  return { resolved, told: problems.map((p) => `${p.level} ${p.path}: ${p.message}`).join("\n") };
};
const micro: readonly Override[] = [["train_micro_batch_size_per_gpu", 2]];

describe("the batch", () => {
  const auto = {
    train_batch_size: "auto",
    train_micro_batch_size_per_gpu: "auto",
    gradient_accumulation_steps: "auto",
    optimizer: { type: "AdamW" },
  };

  test("follows from --micro-batch", () => {
    const { resolved } = examine(auto, { overrides: micro });
    expect(resolved).toMatchObject({ trainBatch: 4, microBatch: 2, gradientAccumulation: 1, warnings: [] });
    expect(resolved?.sources.get("train_micro_batch_size_per_gpu")).toBe("flag");
    expect(resolved?.sources.get("train_batch_size")).toBe("derived");
    expect(resolved?.autos.map(({ path, value, source }) => [path, value, source])).toEqual([
      ["train_batch_size", 4, "derived"],
      ["gradient_accumulation_steps", 1, "derived"],
    ]);
  });

  test("follows from the two numbers that are written", () => {
    expect(examine({ ...auto, train_batch_size: 16, gradient_accumulation_steps: 4 }).resolved).toMatchObject({
      microBatch: 2,
    });
    expect(examine({ ...auto, train_batch_size: 16 }, { overrides: micro }).resolved).toMatchObject({
      gradientAccumulation: 4,
    });
  });

  test("is refused by path where nothing gives it", () => {
    const { resolved, told } = examine(auto);
    expect(resolved).toBeUndefined();
    expect(told).toMatch(/^error train_batch_size: "auto" needs a micro-batch to be filled from; give --micro-batch/m);
    expect(told.match(/^error/gm)).toHaveLength(1);
  });
});

test("the optimizer's are Hugging Face's defaults, and lr says so", () => {
  const auto = {
    type: "Adam",
    params: { lr: "auto", betas: "auto", eps: "auto", weight_decay: "auto", torch_adam: true },
  };
  const { resolved, told } = examine({ train_batch_size: 2, gradient_clipping: "auto", optimizer: auto });
  expect(resolved?.optimizer).toEqual({
    type: "AdamW",
    learningRate: 5e-5,
    beta1: 0.9,
    beta2: 0.999,
    epsilon: 1e-8,
    weightDecay: 0,
    biasCorrection: true,
  });
  expect(resolved?.gradientClipping).toBe(1);
  expect(told).toBe(
    'warning optimizer.params.lr: "auto" is filled with 0.00005, Hugging Face\'s default; choose one with --lr',
  );
  const flagged = examine({ train_batch_size: 2, optimizer: auto }, { overrides: [["optimizer.params.lr", 0.5]] });
  expect(flagged.resolved?.optimizer.learningRate).toBe(0.5);
  expect(flagged.told).toBe("");
});

test("precision is off unless a flag says so, and that is told once", () => {
  const auto = {
    train_batch_size: 2,
    optimizer: { type: "Adam" },
    fp16: { enabled: "auto" },
    bf16: { enabled: "auto" },
  };
  const { resolved, told } = examine(auto);
  expect(resolved?.precision).toBe("fp32");
  expect(told).toMatch(
    /^warning bf16\.enabled: "auto" is filled with false, so this trains in fp32; --set bf16\.enabled=true/,
  );
  expect(told.match(/warning/g)).toHaveLength(1);
  const flagged = examine(auto, { overrides: [["bf16.enabled", true]] });
  expect(flagged.resolved?.precision).toBe("bf16");
  expect(flagged.told).toBe("");
});

describe("sizes", () => {
  const zero_optimization = {
    stage: 3,
    reduce_bucket_size: "auto",
    prefetch_bucket_size: "auto",
    stage3_param_persistence_threshold: "auto",
    stage3_max_live_parameters: "auto",
  };
  const file = { train_batch_size: 2, optimizer: { type: "Adam" }, zero_optimization };

  test("come from the model's width", () => {
    const { resolved } = examine(file, { model: { name: "m", hiddenSize: 65 } });
    expect(resolved?.sizes).toMatchObject({
      reduceBucketSize: 4225,
      prefetchBucketSize: 3802, // floor(3802.5)
      paramPersistenceThreshold: 650,
      maxLiveParameters: undefined,
    });
    expect(resolved?.sources.get("zero_optimization.reduce_bucket_size")).toBe("model");
  });

  test("are the plan's while the model is not known", () => {
    const { resolved } = examine(file);
    expect(new Set(Object.values(resolved!.sizes))).toEqual(new Set([undefined]));
    expect(resolved?.sources.get("zero_optimization.reduce_bucket_size")).toBe("derived");
    expect(resolved?.autos).toHaveLength(4);
  });
});

describe("schedules", () => {
  const params = { warmup_min_lr: "auto", warmup_max_lr: "auto", warmup_num_steps: "auto", total_num_steps: "auto" };
  const file = {
    train_batch_size: 8,
    optimizer: { type: "Adam", params: { lr: 0.25 } },
    scheduler: { type: "WarmupDecayLR", params },
  };

  test("rise to the optimizer's rate and last as long as the run", () => {
    const { resolved, told } = examine(file, { stepsOf: (trainBatch) => 100 * trainBatch });
    expect(resolved?.schedule).toEqual({
      type: "WarmupDecayLR",
      minLearningRate: 0,
      maxLearningRate: 0.25,
      warmupSteps: 1,
      warmupType: "log",
      totalSteps: 800,
    });
    expect(told).toMatch(/warmup_num_steps: "auto" is filled with 1: Hugging Face's default is no warm-up/);
  });

  test("to look at a file the length may be unknown; to train with it, it may not", () => {
    const { resolved, told } = examine(file);
    expect(resolved?.schedule).toMatchObject({ totalSteps: Number.POSITIVE_INFINITY });
    expect(told).toMatch(/warning scheduler\.params\.total_num_steps: "auto" is filled with the length of the run/);
    const input = { file: parseConfigObject(file, "ds.json"), worldSize: 2 };
    expect(() => resolveConfig(input)).toThrow(
      /total_num_steps: found "auto", which nothing here can fill; give --steps/,
    );
    expect(resolveConfig({ ...input, stepsOf: () => 7 }).schedule).toMatchObject({ totalSteps: 7 });
  });
});

test("elsewhere: the default where DeepSpeed reads it so, a refusal where nothing can", () => {
  const inside = { stage: "auto", offload_param: { device: "none", buffer_size: "auto" }, overlap_comm: "auto" };
  const optimizer = { type: "Adam" };
  const { resolved, told } = examine({
    train_batch_size: 2,
    optimizer,
    zero_optimization: inside,
    fp16: { enabled: true, loss_scale: "auto", initial_scale_power: "auto" },
  });
  expect(resolved).toMatchObject({ stage: 0, overlapComm: false, lossScale: { initialScale: 65536 } });
  expect(told).toBe("");
  expect(resolved?.autos.map((auto) => auto.path)).toEqual([
    "zero_optimization.stage",
    "zero_optimization.offload_param.buffer_size",
    "zero_optimization.overlap_comm",
    "fp16.loss_scale",
    "fp16.initial_scale_power",
  ]);
  expect(examine({ train_batch_size: 2, optimizer, steps_per_print: "auto" }).told).toMatch(
    /^error steps_per_print: found "auto", which nothing here can fill; write a value, or leave the key out/,
  );
  expect(examine({ train_batch_size: 2, optimizer: { type: "auto" } }).resolved).toBeUndefined();
});
