import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { nodeFromValue, parseConfigObject, parseConfigText } from "../../src/config/json.ts";
import type { KeySpec } from "../../src/config/key-kinds.ts";
import { aliases, keys, misspellings } from "../../src/config/keys.ts";
import { usedPaths } from "../../src/config/reader.ts";
import { examineConfig, type Override, parseOverride, resolveConfig } from "../../src/config/resolve.ts";
import { ConfigError } from "../../src/errors/errors.ts";

const resolve = (config: object, worldSize = 1, overrides: readonly Override[] = []) =>
  resolveConfig({ file: parseConfigObject(config, "ds.json"), overrides, worldSize });

/** A configuration with a batch, so that only what a test adds can be wrong. */
const with1 = (more: object) => ({ train_micro_batch_size_per_gpu: 1, ...more });

function problems(run: () => unknown): string[] {
  try {
    run();
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map((p) => `${p.line ?? "-"} ${p.path}: ${p.message}`);
    throw error;
  }
  return [];
}

describe("defaults", () => {
  test("without a file: micro-batch 4, stage 0, AdamW at 3e-4 in fp32", () => {
    const config = resolveConfig({ worldSize: 2 });
    expect(config).toMatchObject({ stage: 0, precision: "fp32", worldSize: 2, trainBatch: 8, microBatch: 4 });
    expect(config).toMatchObject({
      gradientAccumulation: 1,
      gradientClipping: 1,
      reporting: { stepsPerPrint: 10 },
      overlapComm: false,
    });
    expect(config.optimizer).toEqual({
      type: "AdamW",
      learningRate: 3e-4,
      beta1: 0.9,
      beta2: 0.999,
      epsilon: 1e-8,
      weightDecay: 0,
      biasCorrection: true,
    });
    expect(config.warnings).toEqual([]);
    expect(config.sources.get("train_micro_batch_size_per_gpu")).toBe("default");
    expect(config.sources.get("train_batch_size")).toBe("derived");
  });

  test("sizes that are left out or auto are for the plan to derive", () => {
    const given = resolve(with1({ zero_optimization: { stage: 3, reduce_bucket_size: "auto", overlap_comm: null } }));
    expect(new Set(Object.values(given.sizes))).toEqual(new Set([undefined]));
    expect(given.sources.get("zero_optimization.reduce_bucket_size")).toBe("derived");
    expect(given.overlapComm).toBe(true);
  });

  test("everything is frozen, all the way down", () => {
    const config = resolve(
      with1({
        fp16: { enabled: true },
        scheduler: { type: "OneCycle", params: { cycle_min_lr: 0, cycle_max_lr: 1 } },
        shunya: { parameter_groups: [{ match: "*", lr: 1 }] },
        tensorboard: { enabled: true },
        gradient_clipping: "auto",
      }),
    );
    const loose = (value: unknown, path: string): string[] => {
      if (typeof value !== "object" || value === null || value instanceof Map) return [];
      const inside = Object.entries(value).flatMap(([key, inner]) => loose(inner, `${path}.${key}`));
      return Object.isFrozen(value) ? inside : [path, ...inside];
    };
    expect(loose(config, "config")).toEqual([]);
  });
});

describe("what keys mean", () => {
  test("a whole DeepSpeed file", () => {
    const text = `{
      "train_batch_size": 32, # over 2 ranks
      "gradient_accumulation_steps": 4,
      "bfloat16": { "enabled": true },
      "fp16": { "enabled": false, "loss_scale_window": 1000 },
      "data_types": { "grad_accum_dtype": "fp32" },
      "gradient_clipping": 0,
      "zero_optimization": {
        "stage": 3, "overlap_comm": false, "contiguous_gradients": true, "reduce_scatter": true,
        "reduce_bucket_size": 5e8, "prefetch_bucket_size": 5e7, "stage3_max_live_parameters": 1e9,
        "stage3_max_reuse_distance": 1e30, "sub_group_size": 1e9, "param_persistence_threshold": 0,
        "offload_optimizer": { "device": "none", "pin_memory": true }, "offload_param": null,
      },
      "optimizer": { "type": "adam", "params": { "lr": 1e-4, "betas": [0.9, 0.95], "weight_decay": 0.1, "adam_w_mode": false } },
      "steps_per_print": 1, "wall_clock_breakdown": false,
      "shunya": { "activation_checkpointing": true },
    }`;
    const config = resolveConfig({ file: parseConfigText(text, "ds.json"), worldSize: 2 });
    expect(config).toMatchObject({
      trainBatch: 32,
      microBatch: 4,
      gradientAccumulation: 4,
      precision: "bf16",
      stage: 3,
    });
    expect(config).toMatchObject({ gradientAccumulationType: "fp32", gradientClipping: 0, overlapComm: false });
    expect(config).toMatchObject({ activationCheckpointing: true, reporting: { stepsPerPrint: 1 }, warnings: [] });
    expect(config.optimizer).toMatchObject({ type: "Adam", learningRate: 1e-4, beta2: 0.95, weightDecay: 0.1 });
    expect(config.sizes).toEqual({
      reduceBucketSize: 5e8,
      allgatherBucketSize: undefined,
      prefetchBucketSize: 5e7,
      paramPersistenceThreshold: 0,
      maxLiveParameters: 1e9,
      maxReuseDistance: Number.MAX_SAFE_INTEGER,
      subGroupSize: 1e9,
    });
    expect(config.sources.get("zero_optimization.stage3_prefetch_bucket_size")).toBe("file");
  });

  test.each([
    [{ type: "Adam" }, "AdamW"],
    [{ type: "Adam", params: { adam_w_mode: false } }, "Adam"],
    [{ type: "AdamW", params: { adam_w_mode: false } }, "AdamW"],
    [{ type: "ADAMW" }, "AdamW"],
  ] as const)("optimizer %j is %s", (optimizer, type) => {
    expect(resolve(with1({ optimizer })).optimizer).toMatchObject({ type, learningRate: 1e-3, weightDecay: 0 });
  });

  test("torch_adam brings PyTorch's default weight decay, for decoupled decay only", () => {
    const decay = (params: object) => resolve(with1({ optimizer: { type: "Adam", params } })).optimizer.weightDecay;
    expect(decay({ torch_adam: true })).toBe(0.01);
    expect(decay({ torch_adam: true, adam_w_mode: false })).toBe(0);
    expect(decay({ torch_adam: true, weight_decay: 0.2 })).toBe(0.2);
  });

  test("zero_optimization as a boolean, and stage 2.0", () => {
    expect(resolve(with1({ zero_optimization: true })).stage).toBe(1);
    expect(resolve(with1({ zero_optimization: false })).stage).toBe(0);
    expect(
      resolveConfig({
        file: parseConfigText('{"train_batch_size":1,"zero_optimization":{"stage":2.0}}', "x"),
        worldSize: 1,
      }).stage,
    ).toBe(2);
  });

  test("accumulation in the parameters' own type is the default", () => {
    const type = (config: object) => resolve(with1(config)).gradientAccumulationType;
    expect(type({ data_types: { grad_accum_dtype: "fp32" } })).toBe("fp32");
    expect(type({ bf16: { enabled: true } })).toBe("bf16");
    expect(type({ bf16: { enabled: true }, data_types: { grad_accum_dtype: "bf16" } })).toBe("bf16");
    expect(type({ bf16: { enabled: true }, data_types: { grad_accum_dtype: "FP32" } })).toBe("fp32");
  });

  test("flags replace what the file says, under any spelling", () => {
    const file = with1({ bfloat16: { enabled: false }, zero_optimization: { stage: 1, max_reuse_distance: 5 } });
    const config = resolve(file, 1, [
      ["zero_optimization.stage", 3],
      ["bf16.enabled", "true"],
      ["zero_optimization.stage3_max_reuse_distance", "7"],
      ["optimizer.type", "adamw"],
      ["optimizer.params.betas", "[0.8, 0.9]"],
      ["train_micro_batch_size_per_gpu", "null"],
      ["train_batch_size", "6"],
    ]);
    expect(config).toMatchObject({
      stage: 3,
      precision: "bf16",
      trainBatch: 6,
      microBatch: 6,
      sizes: { maxReuseDistance: 7 },
    });
    expect(config.optimizer).toMatchObject({ beta1: 0.8, beta2: 0.9 });
    expect(config.sources.get("zero_optimization.stage")).toBe("flag");
    expect(parseOverride("a.b = c=d")).toEqual(["a.b", "c=d"]);
    expect(parseOverride("=1")).toBeUndefined();
    expect(parseOverride("stage")).toBeUndefined();
  });
});

test("a flag repairs a file, and the last of several flags counts", () => {
  const file = {
    train_batch_size: 7,
    fp16: { enabled: true },
    scheduler: { type: "WarmupLR" },
    zero_optimization: { stage: 9 },
  };
  const repaired = resolve(file, 2, [
    ["train_batch_size", "8"],
    ["fp16.enabled", "false"],
    ["bf16.enabled", "false"],
    ["bfloat16.enabled", "true"],
    ["scheduler", "null"],
    ["zero_optimization", '{ "stage": 2 }'],
  ]);
  expect(repaired).toMatchObject({ trainBatch: 8, precision: "bf16", stage: 2 });
  expect(repaired.schedule).toBeUndefined();
});

describe("warnings", () => {
  test("keys without effect are named once for each reason, unless they ask for what happens anyway", () => {
    const { warnings } = resolve(
      with1({
        optimizer: { type: "AdamW" },
        aio: { block_size: 4096, queue_depth: 8, single_submit: true, overlap_events: false },
        zero_optimization: { contiguous_gradients: true, round_robin_gradients: true, elastic_checkpoint: false },
        tensor_parallel: { autotp_size: 2 },
        wandb: { enabled: false, project: "x" },
      }),
    );
    expect(warnings).toEqual([
      expect.stringMatching(/^aio\.single_submit: has no effect here: each request is a call of its own/),
      expect.stringMatching(/^zero_optimization\.round_robin_gradients: has no effect here: /),
      expect.stringMatching(
        /^tensor_parallel: has no effect here: a DeepSpeed key that this version does not implement/,
      ),
    ]);
  });

  test("an optimizer that was chosen for the user", () => {
    expect(resolve(with1({})).warnings).toEqual([expect.stringMatching(/optimizer\.type: left out: AdamW/)]);
  });

  const cases: [name: string, config: object, wanted: RegExp][] = [
    ["a note", { _comment: "mine", "//": "x" }, /_comment: a note, not a setting/],
    ["a harmless key at the wrong level", { memory_efficient_linear: false }, /wrong level.*zero_optimization\.memory/],
    ["another, beside params", { optimizer: { type: "Adam", adam_w_mode: true } }, /as optimizer\.params\.adam_w_mode/],
    ["fp16 as a boolean", { fp16: true }, /fp16: found true in place of an object; read as \{ "enabled": true \}/],
    ["an old boolean", { zero_optimization: true }, /read as \{ "stage": 1 \}/],
    ["a misspelling of a tutorial", { zero_optimization: { stage3_param_persitance_threshold: 1 } }, /a misspelling/],
    ["numbers in quotes", { gradient_clipping: "1.5" }, /found "1\.5", read as 1\.5; write it without quotes/],
    [
      "the same key twice, with one value",
      { bf16: { enabled: true }, bfloat16: { enabled: true } },
      /same key as bf16/,
    ],
    ["a thread count", { aio: { thread_count: 2 } }, /an old key.*aio\.intra_op_parallelism: 2/],
    [
      "old names of other programs",
      { fp16: { enabled: true, opt_level: "O2" } },
      /opt_level: has no effect here: .*Apex/,
    ],
  ];
  test.each(cases)("%s", (_, config, wanted) => {
    expect(resolve(with1(config)).warnings.join("\n")).toMatch(wanted);
  });
});

describe("problems", () => {
  const cases: [name: string, config: object, wanted: RegExp][] = [
    ["an unknown key", { optimzer: {} }, /optimzer: unknown key; did you mean optimizer\?/],
    ["an unknown key far from all", { zebra: 1 }, /zebra: unknown key; remove it/],
    ["camel case", { gradientClipping: 1 }, /did you mean gradient_clipping\?/],
    ["a part of a name", { micro_batch_per_gpu: 5 }, /did you mean train_micro_batch_size_per_gpu\?/],
    ["the beginning of a name", { zero_optimization: { zero_hpzz: 8 } }, /did you mean .*zero_hpz_partition_size\?/],
    ["a key at the wrong level", { stage: 2 }, /stage: unknown key; it is known as zero_optimization\.stage/],
    [
      "a section at the wrong level",
      { zero_optimization: { aio: { block_size: 1 } } },
      /aio: .*at the top level: move/,
    ],
    ["a key too deep", { zero_optimization: { train_batch_size: 2 } }, /known at the top level: move it there/],
    ["a key of many places", { enabled: true }, /known in \d+ sections \(/],
    ["a dotted key", { "zero_optimization.stage": 2 }, /write stage in an object under zero_optimization/],
    ["an empty key", { "": { stage: 2 } }, /unknown key/],
    ["a dangerous key", JSON.parse('{"__proto__": {"stage": 2}, "constructor": 1}'), /__proto__: unknown key/],
    [
      "a decoupling switch beside params",
      { optimizer: { adam_w_mode: false } },
      /as optimizer\.params\.adam_w_mode: move/,
    ],
    ["stage 4", { zero_optimization: { stage: 4 } }, /found 4; wanted 0, 1, 2, 3/],
    ["a list of stages", { zero_optimization: { stage: [0, 1] } }, /found \[0, 1\]; wanted 0, 1, 2, 3/],
    ["no stage", { zero_optimization: { stage: null } }, /found null; .*leave the key out \(it is 0\)/],
    ["no section", { zero_optimization: null }, /zero_optimization: found null; wanted an object/],
    ["a list as section", { zero_optimization: [] }, /zero_optimization: found \[\]; wanted an object/],
    ["a number as section", { bf16: 3 }, /bf16: found 3; wanted an object such as \{ "enabled"/],
    ["a section switched off that acts", { scheduler: false }, /scheduler: found false; wanted an object/],
    ["a null size", { zero_optimization: { reduce_bucket_size: null } }, /found null; .*leave the key out/],
    ["a template", { gradient_clipping: "{{ clip }}" }, /\{\{ clip \}\} is a placeholder that nothing has filled/],
    ["a negative number", { gradient_clipping: -1 }, /found -1; wanted a number from 0 on/],
    ["a number that is none", { gradient_clipping: Number.NaN }, /found NaN/],
    ["a number too large", { gradient_clipping: Number.POSITIVE_INFINITY }, /found a number too large/],
    ["a batch of 0", { train_micro_batch_size_per_gpu: 0 }, /found 0; wanted a positive whole number/],
    ["a batch of 2.5", { train_batch_size: 2.5 }, /found 2\.5; wanted a positive whole number/],
    ["a batch beyond 2^53", { train_batch_size: 1e300 }, /found 1e\+300/],
    [
      "a bucket of 5.5",
      { zero_optimization: { reduce_bucket_size: 5.5 } },
      /found 5\.5; wanted a positive whole number/,
    ],
    ["a bucket of 0", { zero_optimization: { reduce_bucket_size: 0 } }, /found 0/],
    ["amp", { amp: { enabled: true } }, /amp: .*use bf16\.enabled or fp16\.enabled/],
    ["another batch", { elasticity: { enabled: true } }, /elasticity: .*write the batch keys/],
    ["parallelism of another kind", { sequence_parallel_size: 2 }, /found 2; wanted 1: ranks here are data-parallel/],
    ["legacy_stage1", { zero_optimization: { legacy_stage1: true } }, /DeepSpeed refuses it too/],
    [
      "a tag that is none",
      { checkpoint: { tag_validation: "maybe" } },
      /found "maybe"; wanted "Ignore", "Warn", "Fail"/,
    ],
    [
      "two spellings of a section",
      { bf16: { enabled: false }, bfloat16: { enabled: true } },
      /same key as bf16\.enabled/,
    ],
    [
      "two spellings of a key",
      { zero_optimization: { max_live_parameters: 1, stage3_max_live_parameters: 2 } },
      /same key as zero_optimization\.max_live_parameters/,
    ],
    [
      "an old key beside the new one",
      { zero_optimization: { stage: 1, cpu_offload: true, offload_optimizer: { device: "cpu" } } },
      /cpu_offload: an old name of what zero_optimization\.offload_optimizer\.device says; remove this one/,
    ],
    [
      "groups",
      { shunya: { parameter_groups: [{ match: "*.bias" }, { match: "*", weigth_decay: 0 }] } },
      /group 2: unknown key weigth_decay; known are match, lr, weight_decay/,
    ],
  ];
  test.each(cases)("%s", (_, config, wanted) => {
    expect(problems(() => resolve(with1(config))).join("\n")).toMatch(wanted);
  });

  test("all at once, each with its line", () => {
    const text =
      '{\n"train_batch_size": 7,\n"optimzer": {},\n"zero_optimization": {\n"stage": 9,\n"reduce_bucket_size": -1 } }';
    const found = problems(() => resolveConfig({ file: parseConfigText(text, "ds.json"), worldSize: 2 }));
    expect(found.map((problem) => problem.split(":")[0])).toEqual([
      "2 train_batch_size",
      "3 optimzer",
      "5 zero_optimization.stage",
      "6 zero_optimization.reduce_bucket_size",
    ]);
  });

  test("examining gives warnings too, sorted by line, and no configuration where there is an error", () => {
    const text = '{\n"wandb": {"enabled": true},\n"train_batch_size": 4,\n"bf16": true,\n"aio": {"queue_depth": -1}}';
    const { config, problems: all } = examineConfig({ file: parseConfigText(text, "ds.json"), worldSize: 2 });
    expect(config).toBeUndefined();
    expect(all.map(({ line, level, path }) => [line, level, path])).toEqual([
      [2, "warning", "wandb"],
      [4, "warning", "bf16"],
      [5, "error", "aio.queue_depth"],
      [undefined, "warning", "optimizer.type"],
    ]);
  });

  test("another program's file is told as one problem, with the part that was meant", () => {
    const nested = { env: {}, model: { deepspeed: { zero_optimization: { stage: 1 } } } };
    const { problems: all } = examineConfig({ file: parseConfigObject(nested), worldSize: 1 });
    const [first, ...others] = all.filter((problem) => problem.level === "error");
    expect(first!.message).toMatch(
      /no key of DeepSpeed's at the top level.*\(env, model\); what stands under model\.deepspeed/,
    );
    expect(others.map((problem) => problem.path)).toEqual(["train_batch_size"]);
    // A slip is one even where it is the only key.
    expect(problems(() => resolve({ optimzer: {} })).join()).toMatch(/optimzer: unknown key; did you mean optimizer/);
    const hyphens = Object.fromEntries(
      ["num-layers", "a-b", "c-d", "e-f", "g-h", "i-j", "k-l"].map((name) => [name, 1]),
    );
    expect(problems(() => resolve(with1(hyphens)))).toEqual([
      expect.stringMatching(/7 keys at the top level are not DeepSpeed's.*num-layers, a-b/),
    ]);
  });

  test("a batch key that cannot be read is one problem, not two", () => {
    expect(problems(() => resolve({ train_batch_size: "x" }))).toHaveLength(1);
  });

  test("flags and the number of ranks", () => {
    expect(problems(() => resolve(with1({}), 1, [["optimizer.params.lrr", "1"]]))).toEqual([
      expect.stringMatching(/^- optimizer\.params\.lrr: AdamW has no such parameter; .*did you mean lr\?$/),
    ]);
    expect(problems(() => resolveConfig({ worldSize: 0 }))[0]).toMatch(/ranks: found 0/);
    expect(problems(() => resolveConfig({ worldSize: 2, overrides: [["train_batch_size", "5"]] }))[0]).toMatch(
      /5 != 2 \* 1 \* 2/,
    );
  });
});

describe("the key table", () => {
  test("aliases lead to rows or sections of the table", () => {
    const paths = Object.keys(keys);
    for (const [alias, path] of Object.entries(aliases)) {
      expect(paths).not.toContain(alias);
      expect(paths.some((known) => known === path || known.startsWith(`${path}.`))).toBe(true);
    }
  });

  test("the value that a row takes when it is left out is one that it accepts", () => {
    for (const [path, spec] of Object.entries(keys) as [string, KeySpec][]) {
      if (spec.status !== "used" || spec.leftOut === undefined) continue;
      const node = nodeFromValue(spec.leftOut, path, 0, "the table");
      expect(spec.type.read(node), path).toEqual(spec.leftOut);
    }
  });

  test("old keys lead to rows, and misspellings to keys that are used", () => {
    for (const spec of Object.values(keys) as KeySpec[])
      if (spec.status === "replaced") expect(keys).toHaveProperty([spec.by]);
    for (const path of Object.values(misspellings)) expect(usedPaths).toContain(path);
  });
});

test("whatever stands in a configuration, the answer is a configuration or a ConfigError", () => {
  const paths = [
    ...Object.keys(keys),
    ...Object.keys(aliases),
    "zero_optimization",
    "optimizer",
    "optimizer.params",
    "bf16",
    "x.y",
  ];
  const leaf = fc.oneof(
    fc.constantFrom(0, 1, 2, 3, -1, 1e9, 1e300, Number.NaN, "auto", "3", "adam", "fp32", true, false, null, undefined),
    fc.constantFrom(
      [],
      [0.9, 0.95],
      [1, 2, 3],
      {},
      { enabled: true },
      { device: "cpu" },
      { stage: 1 },
      { a: { b: [] } },
    ),
    fc.anything({ maxDepth: 2 }),
  );
  const overrides = fc.array(fc.tuple(fc.oneof(fc.constantFrom(...paths), fc.string()), leaf), { maxLength: 8 });
  const worlds = fc.constantFrom(1, 2, 3, 7, 0, -1, 1.5, Number.NaN, 1e300);
  fc.assert(
    fc.property(overrides, fc.option(fc.object(), { nil: undefined }), worlds, (set, object, worldSize) => {
      try {
        const file = object === undefined ? undefined : parseConfigObject(object);
        const config = resolveConfig({ file, overrides: set, worldSize });
        expect(config.trainBatch).toBe(config.microBatch * config.gradientAccumulation * worldSize);
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigError);
      }
    }),
    { numRuns: 1500 },
  );
});
