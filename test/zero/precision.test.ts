// fp16 with its loss scale, skipped steps, and how a run ends whose numbers are not finite. In this process, a world of one.
import { describe, expect, test } from "vitest";
import { NumericalError } from "../../src/errors/errors.ts";
import { initializeIn } from "../../src/launch/initialize.ts";
import { joinWorld } from "../../src/launch/world.ts";
import type { LanguageBatch } from "../../src/nn/models/gpt2.ts";
import type { Gpt2Config } from "../../src/nn/models/gpt2-config.ts";
import type { Engine } from "../../src/zero/engine.ts";
import type { StepRecord } from "../../src/zero/record.ts";
import { configOf, type Job } from "../laws/jobs.ts";
import { buildModel, gpt2 } from "../laws/models.ts";
import { smallJob, trainStep } from "./support.ts";

interface Setting {
  readonly config: object;
  readonly steps?: number;
  /** Every value of this tensor at the start. */
  readonly spoilt?: { readonly name: string; readonly value: number };
  readonly model?: Partial<Gpt2Config>;
}

const base = { train_micro_batch_size_per_gpu: 2, zero_optimization: { stage: 3 } };

async function weightsOf(engine: Engine<LanguageBatch>): Promise<number[]> {
  const all: number[] = [];
  for await (const { values } of engine.weights()) all.push(...values);
  return all;
}

function start({ config, spoilt, model = {} }: Setting): { job: Job; engine: Promise<Engine<LanguageBatch>> } {
  const job = smallJob({ config: { ...base, ...config }, model: gpt2(model) });
  const weights = spoilt && {
    has: (name: string) => name === spoilt.name,
    read: async (_name: string, _first: number, count: number) => new Float32Array(count).fill(spoilt.value),
  };
  const given = { model: buildModel(job.model, 0), ...(weights && { weights }) };
  return { job, engine: initializeIn<LanguageBatch>(joinWorld({ threads: 1 }), configOf(job.config, 1), given) };
}

/** Trains to the end or to the error. */
async function train(setting: Setting) {
  const { job, engine: starting } = start(setting);
  await using engine = await starting;
  const first = await weightsOf(engine);
  const records: StepRecord[] = [];
  engine.on("step", (record) => records.push(record));
  let error: unknown;
  try {
    for (let step = 0; step < (setting.steps ?? 5); step++) await trainStep(engine, job, step);
  } catch (thrown) {
    error = thrown;
  }
  return { records, error, first, last: await weightsOf(engine), progress: engine.progress };
}

const lossesOf = (records: readonly StepRecord[]): number[] => records.map((r) => r.loss);

describe("fp16", () => {
  test("learns as fp32 does", async () => {
    const optimizer = { type: "AdamW", params: { lr: 3e-3 } };
    const wanted = lossesOf((await train({ config: { optimizer }, steps: 10 })).records);
    const fp16 = { enabled: true, initial_scale_power: 10 };
    const { records } = await train({ config: { optimizer, fp16 }, steps: 10 });
    expect(records.every((r) => !r.skipped && r.lossScale === 1024)).toBe(true);
    lossesOf(records).forEach((loss, i) => {
      expect(Math.abs(loss / wanted[i]! - 1)).toBeLessThan(0.005);
    });
  });

  test("a step that overflows changes nothing and the next one halves the scale", async () => {
    const fp16 = { enabled: true, initial_scale_power: 40, hysteresis: 1 };
    const scheduler = { type: "WarmupLR", params: { warmup_num_steps: 10, warmup_type: "linear" } };
    const { records, first, last, progress } = await train({ config: { fp16, scheduler }, steps: 3 });
    expect(records.map((r) => r.lossScale)).toEqual([2 ** 40, 2 ** 39, 2 ** 38]);
    expect(records.map((r) => r.skipped)).toEqual([true, true, true]);
    expect(records.map((r) => r.gradNorm)).toEqual([null, null, null]);
    expect(records[0]!.reason).toMatch(/^the gradients of .* are not finite$/);
    expect(new Set(records.map((r) => r.learningRate)).size).toBe(1);
    expect(last).toEqual(first);
    expect(progress).toMatchObject({ attempted: 3, updates: 0, consecutiveSkips: 3 });
  });

  test("after overflows it trains as if they had not been, on the batches that are left", async () => {
    const fp16 = { enabled: true, initial_scale_power: 30, hysteresis: 1 };
    const { records, error } = await train({ config: { fp16 }, steps: 30 });
    expect(error).toBeUndefined();
    const skips = records.filter((r) => r.skipped).length;
    expect(skips).toBeGreaterThan(3);
    expect(records.slice(skips).every((r) => !r.skipped)).toBe(true);
    expect(records.at(-1)!.loss).toBeLessThan(records[0]!.loss);
  });

  // DeepSpeed divides by the scale after it has changed, so the doubling step's update is half as long there.
  test("gradients are divided by the scale that they were made with, also where it doubles", async () => {
    const optimizer = { type: "SGD", params: { lr: 0.3 } }; // Adam would not see a gradient's length
    const more = { optimizer, gradient_clipping: 0 };
    const fixed = await train({ config: { ...more, fp16: { enabled: true, loss_scale: 256 } }, steps: 6 });
    const doubling = { enabled: true, initial_scale_power: 8, loss_scale_window: 1, hysteresis: 1 };
    const moving = await train({ config: { ...more, fp16: doubling }, steps: 6 });
    expect(moving.records.map((r) => r.lossScale)).toEqual([256, 256, 512, 1024, 2048, 4096]);
    moving.records.forEach((r, i) => {
      expect(Math.abs(r.gradNorm! / fixed.records[i]!.gradNorm! - 1)).toBeLessThan(2e-3);
    });
    const largest = Math.max(...moving.last.map((w, i) => Math.abs(w - fixed.last[i]!)));
    const moved = Math.max(...fixed.last.map((w, i) => Math.abs(w - fixed.first[i]!)));
    expect(largest / moved).toBeLessThan(0.02);
  });

  test("a static scale is checked too", async () => {
    const { records, error } = await train({ config: { fp16: { enabled: true, loss_scale: 2 ** 40 } }, steps: 25 });
    expect(records).toHaveLength(20);
    expect(records.every((r) => r.skipped && r.lossScale === 2 ** 40)).toBe(true);
    expect(error).toBeInstanceOf(NumericalError);
    expect((error as Error).message).toMatch(
      /^step 20: the gradient of \S+ is -?(Infinity|NaN).*; 20 steps in a row were skipped\. Of 20 steps 0 were applied/,
    );
    expect((error as Error).message).toContain("fp16.loss_scale: 0");
  });

  test("ends when the scale is at its minimum, and names the layer that was first", async () => {
    const spoilt = { name: "transformer.h.1.mlp.c_fc.weight", value: Number.POSITIVE_INFINITY };
    const { records, error, first, last } = await train({ config: { fp16: { enabled: true } }, spoilt, steps: 1000 });
    expect(records.map((r) => r.lossScale)).toEqual([2 ** 16, ...Array.from({ length: 17 }, (_, i) => 2 ** (16 - i))]);
    expect(error).toBeInstanceOf(NumericalError);
    expect((error as Error).message).toMatch(
      /^step 18: the parameter transformer\.h\.1\.mlp\.c_fc\.weight holds Infinity; /,
    );
    expect((error as Error).message).toMatch(/the loss scale is at its minimum of 1\. Of 18 steps 0 were applied/);
    expect(last).toEqual(first);
  });

  test("a layer whose parameters are finite is named by its output", async () => {
    const spoilt = { name: "transformer.h.1.mlp.c_proj.weight", value: 60_000 };
    const { error } = await train({ config: { fp16: { enabled: true, loss_scale: 1 } }, spoilt, steps: 30 });
    expect((error as Error).message).toMatch(
      /^step 20: the output of transformer\.h\.1 is (NaN|-?Infinity) on rank 0; /,
    );
  });
});

describe("bf16", () => {
  const spoilt = { name: "transformer.h.0.attn.c_attn.weight", value: Number.NaN };

  test("skips are logged and bounded, without a word of loss scales", async () => {
    const { records, error, first, last } = await train({ config: { bf16: { enabled: true } }, spoilt, steps: 40 });
    expect(records).toHaveLength(20);
    expect(records.every((r) => r.skipped && r.lossScale === 1)).toBe(true);
    expect(records[0]!.reason).toBe("the loss is NaN");
    expect((error as Error).message).toMatch(
      /^step 20: the parameter transformer\.h\.0\.attn\.c_attn\.weight holds NaN/,
    );
    expect((error as Error).message).not.toMatch(/scale/);
    expect(last).toEqual(first);
  });

  test("without check_grad_overflow the first such step ends the run, and nothing is ruined", async () => {
    const config = { bf16: { enabled: true, check_grad_overflow: false } };
    const { records, error, first, last } = await train({ config, spoilt });
    expect(records).toHaveLength(1);
    expect(error).toBeInstanceOf(NumericalError);
    expect(last).toEqual(first);
  });
});

describe("gradients on their way", () => {
  test("are added as configured, whatever type they rest in", async () => {
    const optimizer = { type: "AdamW", params: { lr: 3e-3 } };
    const fp32 = lossesOf((await train({ config: { optimizer, gradient_accumulation_steps: 2 } })).records);
    for (const precision of ["bf16", "fp16"])
      for (const grad_accum_dtype of ["fp32", "bf16", "fp16"])
        for (const stage of [1, 2]) {
          const half = precision === "fp16" ? { fp16: { enabled: true, loss_scale: 64 } } : { bf16: { enabled: true } };
          const { records, error } = await train({
            config: {
              ...half,
              optimizer,
              gradient_accumulation_steps: 2,
              data_types: { grad_accum_dtype },
              zero_optimization: { stage },
            },
          });
          expect(error).toBeUndefined();
          const bytes = records[0]!.ranks[0]!.memory.device.gradients.current;
          expect(bytes).toBe(
            records[0]!.ranks[0]!.memory.device.parameters.current * (grad_accum_dtype === "fp32" ? 2 : 1),
          );
          lossesOf(records).forEach((loss, i) => {
            expect(Math.abs(loss / fp32[i]! - 1)).toBeLessThan(0.01);
          });
        }
  });
});
