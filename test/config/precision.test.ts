import { describe, expect, test } from "vitest";
import { parseConfigObject } from "../../src/config/json.ts";
import { examineConfig } from "../../src/config/resolve.ts";

const examine = (config: object, worldSize = 2) => {
  const { config: resolved, problems } = examineConfig({
    file: parseConfigObject({ train_micro_batch_size_per_gpu: 1, optimizer: { type: "AdamW" }, ...config }),
    worldSize,
  });
  return { resolved, told: problems.map((p) => `${p.level} ${p.path}: ${p.message}`) };
};

describe("the loss scale", () => {
  const lossScale = (fp16: object) => examine({ fp16: { enabled: true, ...fp16 } }).resolved?.lossScale;

  test("is DeepSpeed's dynamic one by default", () => {
    expect(lossScale({})).toEqual({
      kind: "dynamic",
      initialScale: 65536,
      window: 1000,
      hysteresis: 2,
      consecutiveHysteresis: false,
      minScale: 1,
    });
    expect(
      lossScale({ initial_scale_power: 32, loss_scale_window: 7, hysteresis: 1, min_loss_scale: 4 }),
    ).toMatchObject({
      initialScale: 2 ** 32,
      window: 7,
      hysteresis: 1,
      minScale: 4,
    });
  });

  test("is static where one is written, and then the dynamic one's numbers do not matter", () => {
    expect(lossScale({ loss_scale: 128, loss_scale_window: 0, min_loss_scale: 0 })).toEqual({
      kind: "static",
      scale: 128,
    });
    expect(lossScale({ loss_scale: "0.5" })).toEqual({ kind: "static", scale: 0.5 });
  });

  test("is only fp16's", () => {
    const { resolved } = examine({ bf16: { enabled: true }, fp16: { enabled: false, loss_scale: 128 } });
    expect(resolved).toMatchObject({ precision: "bf16", lossScale: undefined });
  });

  test.each([
    [{ loss_scale: true }, /fp16\.loss_scale: found true; wanted 0 for a dynamic scale/],
    [{ loss_scale: -1 }, /found -1/],
    [{ loss_scale: Number.POSITIVE_INFINITY }, /found a number too large/],
    [{ loss_scale: Number.NaN }, /found NaN/],
    [
      { loss_scale_window: 0 },
      /loss_scale_window: found 0; wanted a positive whole number where the loss scale is dynamic/,
    ],
    [{ min_loss_scale: 0 }, /min_loss_scale: found 0/],
    [{ min_loss_scale: 0.5 }, /min_loss_scale: found 0\.5; wanted a whole number/],
    [{ min_loss_scale: 8, initial_scale_power: 2 }, /found 8, above the first scale 4/],
    [{ initial_scale_power: 127 }, /from 0 to 126/],
    [{ hysteresis: 0 }, /hysteresis: found 0/],
    [{ fp16_master_weights_and_grads: true }, /master weights are always fp32/],
  ])("refuses %j", (fp16, wanted) => {
    const { resolved, told } = examine({ fp16: { enabled: true, ...fp16 } });
    expect(resolved).toBeUndefined();
    expect(told.join("\n")).toMatch(wanted);
  });

  test("in bf16's section is answered with why", () => {
    const { told } = examine({ bf16: { enabled: true, loss_scale: 0, initial_scale_power: 16 } });
    expect(told).toEqual([
      expect.stringMatching(/^error bf16\.loss_scale: unknown key; it belongs to fp16: .*needs no loss scale/),
      expect.stringMatching(/^error bf16\.initial_scale_power: unknown key; it belongs to fp16/),
    ]);
  });
});

test("a step that is not finite is skipped in fp16 always, in bf16 unless told otherwise, in fp32 never", () => {
  const skips = (config: object) => examine(config).resolved?.skipsOverflow;
  expect(skips({ fp16: { enabled: true } })).toBe(true);
  expect(skips({ bf16: { enabled: true } })).toBe(true);
  expect(skips({ bf16: { enabled: true, check_grad_overflow: false } })).toBe(false);
  expect(skips({})).toBe(false);
});

test("accumulation: any type under 16 bits, fp32 only in fp32", () => {
  const type = (section: object, grad_accum_dtype: string) =>
    examine({ ...section, data_types: { grad_accum_dtype } }).resolved?.gradientAccumulationType;
  for (const section of [{ fp16: { enabled: true } }, { bf16: { enabled: true } }])
    for (const wanted of ["fp32", "bf16", "fp16"]) expect(type(section, wanted)).toBe(wanted);
  expect(type({}, "fp32")).toBe("fp32");
  expect(type({}, "bf16")).toBeUndefined();
  expect(examine({ fp16: { enabled: true } }).resolved?.gradientAccumulationType).toBe("fp16");
});

test("the model's type must agree with the section that decides", () => {
  expect(examine({ bf16: { enabled: true }, data_types: { param_dtype: "bf16" } }).told).toEqual([]);
  expect(examine({ data_types: { param_dtype: "bf16" } }).told.join()).toMatch(
    /found "bf16"; this trains in fp32: enable bf16/,
  );
});

describe("how gradients become one", () => {
  const reduction = (config: object, worldSize = 4) => examine(config, worldSize).resolved?.gradientReduction;

  test("the mean, in the type that they have", () => {
    expect(reduction({})).toEqual({ type: undefined, operation: "mean", divideBefore: 1 });
    expect(reduction({ bf16: { enabled: true }, communication_data_type: "FP32" })?.type).toBe("fp32");
    expect(reduction({ gradient_allreduce_op: "SUM" })?.operation).toBe("sum");
  });

  test("a division before is by the number of ranks or by the factor; both together, by the ranks", () => {
    expect(reduction({ prescale_gradients: true })?.divideBefore).toBe(4);
    expect(reduction({ gradient_predivide_factor: 2.5, zero_optimization: { stage: 1 } })?.divideBefore).toBe(2.5);
    const both = examine({ prescale_gradients: true, gradient_predivide_factor: 2 }, 4);
    expect(both.resolved?.gradientReduction.divideBefore).toBe(4);
    expect(both.told.join()).toMatch(/warning gradient_predivide_factor: prescale_gradients goes first/);
    const sum = examine({ prescale_gradients: true, gradient_allreduce_op: "sum" }, 4);
    expect(sum.resolved?.gradientReduction.divideBefore).toBe(1);
    expect(sum.told.join()).toMatch(/warning prescale_gradients: a sum is not divided/);
  });

  test.each([2, 3])("at stage %i it needs reduce_scatter off, and both ways out are told", (stage) => {
    const way = /remove prescale_gradients, or write "reduce_scatter": false in zero_optimization/;
    expect(examine({ prescale_gradients: true, zero_optimization: { stage } }).told.join()).toMatch(way);
    expect(examine({ gradient_predivide_factor: 2, zero_optimization: { stage } }).resolved).toBeUndefined();
    const off = examine({ prescale_gradients: true, zero_optimization: { stage, reduce_scatter: false } });
    expect(off.resolved?.gradientReduction.divideBefore).toBe(2);
    expect(off.told.join()).toMatch(/warning zero_optimization\.reduce_scatter: gradients go to their owner only/);
  });

  test.each([
    [{ gradient_allreduce_op: "max" }, /found "max"; wanted "mean" or "sum"/],
    [
      { gradient_allreduce_op: "sum", zero_optimization: { stage: 3 } },
      /stage 3 has "mean" only.*remove it, or use stage 2/,
    ],
    [{ gradient_predivide_factor: 0 }, /found 0; wanted a number above 0/],
  ])("refuses %j", (config, wanted) => {
    expect(examine(config).told.join()).toMatch(wanted);
  });
});
