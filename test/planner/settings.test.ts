// What a plan writes into somebody's configuration, and what it leaves there.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { optimizerTypes } from "../../src/config/names.ts";
import { type Placement, placements } from "../../src/plan/placement.ts";
import { placedSettings, plainSettings } from "../../src/planner/settings.ts";
import { configOf } from "../laws/jobs.ts";

const plain: Placement = { stage: 1, offloadOptimizer: "none", offloadParam: "none" };
const onHost: Placement = { stage: 2, offloadOptimizer: "cpu", offloadParam: "none" };
const onDisk: Placement = { stage: 3, offloadOptimizer: "nvme", offloadParam: "nvme" };
const once = { microBatch: 1, gradientAccumulation: 1 };

describe("a file's own settings", () => {
  const file = {
    train_batch_size: 64,
    train_micro_batch_size_per_gpu: 16,
    gradient_accumulation_steps: 1,
    fp16: { enabled: true, loss_scale_window: 500 },
    optimizer: { type: "AdamW", params: { lr: 1e-4 } },
    steps_per_print: 10,
    zero_optimization: {
      stage: 2,
      cpu_offload: true,
      cpu_offload_params: true,
      cpu_offload_use_pin_memory: true,
      reduce_bucket_size: 5e8,
      overlap_comm: false,
      offload_optimizer: { device: "cpu", pin_memory: true, ratio: 0.5 },
      offload_param: { device: "nvme", nvme_path: "/fast", buffer_count: 7 },
    },
  };

  test("stay, but for the batch, the stage and where states are", () => {
    expect(placedSettings(file, plain, { microBatch: 4, gradientAccumulation: 3 }, 8)).toEqual({
      train_batch_size: 96,
      train_micro_batch_size_per_gpu: 4,
      gradient_accumulation_steps: 3,
      fp16: { enabled: true, loss_scale_window: 500 },
      optimizer: { type: "AdamW", params: { lr: 1e-4 } },
      steps_per_print: 10,
      zero_optimization: { stage: 1, reduce_bucket_size: 5e8, overlap_comm: false },
    });
  });

  test("of an offload that stays, stay with it", () => {
    expect(placedSettings(file, onHost, once, 1).zero_optimization).toEqual({
      stage: 2,
      reduce_bucket_size: 5e8,
      overlap_comm: false,
      offload_optimizer: { device: "cpu", pin_memory: true, ratio: 0.5 },
    });
    expect(placedSettings(file, onDisk, once, 1).zero_optimization).toMatchObject({
      offload_optimizer: { device: "nvme", pin_memory: true, nvme_path: "/local_nvme" },
      offload_param: { device: "nvme", buffer_count: 7, nvme_path: "/fast" },
    });
  });

  test("are not changed themselves", () => {
    const before = JSON.stringify(file);
    placedSettings(file, onDisk, once, 4);
    expect(JSON.stringify(file)).toBe(before);
  });

  test.each([undefined, null, true, 3, "on"])("may have %j where the section is", (zero_optimization) => {
    expect(placedSettings({ zero_optimization }, plain, once, 2).zero_optimization).toEqual({ stage: 1 });
  });
});

test("a batch is always what its parts make of it, and the configuration says what the plan says", () => {
  const jobs = fc.record({
    placement: fc.constantFrom(...placements()),
    microBatch: fc.integer({ min: 1, max: 64 }),
    gradientAccumulation: fc.integer({ min: 1, max: 64 }),
    ranks: fc.integer({ min: 1, max: 64 }),
    precision: fc.constantFrom("fp32" as const, "bf16" as const, "fp16" as const),
    optimizer: fc.constantFrom(...optimizerTypes),
    checkpointing: fc.boolean(),
  });
  fc.assert(
    fc.property(jobs, ({ placement, microBatch, gradientAccumulation, ranks, ...job }) => {
      const placed = placedSettings(plainSettings(job), placement, { microBatch, gradientAccumulation }, ranks);
      expect(placed.train_batch_size).toBe(microBatch * gradientAccumulation * ranks);
      const config = configOf(placed, ranks);
      expect(config).toMatchObject({
        stage: placement.stage,
        offloadOptimizer: placement.offloadOptimizer,
        offloadParam: placement.offloadParam,
        trainBatch: microBatch * gradientAccumulation * ranks,
        microBatch,
        gradientAccumulation,
        precision: job.precision,
        activationCheckpointing: job.checkpointing,
      });
      // DeepSpeed's Adam decays weights as AdamW does, unless a file says otherwise.
      expect(config.optimizer.type).toBe(job.optimizer === "Adam" ? "AdamW" : job.optimizer);
    }),
  );
});
