import { describe, expect, it } from "vitest";
import { type HandoverJob, handedOver } from "../../src/planner/handover.ts";

const plan: Omit<HandoverJob, "settings"> = {
  autos: new Map(),
  placement: { stage: 2, offloadOptimizer: "none", offloadParam: "none" },
  batch: { microBatch: 2, gradientAccumulation: 3 },
  ranks: 4,
  checkpointing: false,
};
const onHost = { stage: 3, offloadOptimizer: "cpu", offloadParam: "cpu" } as const;

const written = (settings: HandoverJob["settings"], change: Partial<HandoverJob> = {}) =>
  handedOver({ ...plan, ...change, settings });

describe("the configuration that a plan writes", () => {
  it("has the batch and the stage as numbers, whatever stood there", () => {
    expect(written({ train_batch_size: "auto", gradient_accumulation_steps: "auto", zero_optimization: true })).toEqual(
      {
        train_batch_size: 24,
        train_micro_batch_size_per_gpu: 2,
        gradient_accumulation_steps: 3,
        zero_optimization: { stage: 2 },
      },
    );
  });

  it('has what each "auto" became, and leaves out what is derived', () => {
    const file = written(
      {
        gradient_clipping: "auto",
        optimizer: { type: "AdamW", params: { lr: "auto", betas: "auto" } },
        zero_optimization: { reduce_bucket_size: "auto", stage3_max_live_parameters: "auto" },
      },
      {
        placement: onHost,
        autos: new Map<string, unknown>([
          ["gradient_clipping", 1],
          ["optimizer.params.lr", 5e-5],
          ["optimizer.params.betas", [0.9, 0.999]],
          ["zero_optimization.reduce_bucket_size", 589824],
          ["zero_optimization.stage3_max_live_parameters", undefined],
        ]),
      },
    );
    expect(file).toMatchObject({
      gradient_clipping: 1,
      optimizer: { type: "AdamW", params: { lr: 5e-5, betas: [0.9, 0.999] } },
    });
    expect(file.zero_optimization).toEqual({
      stage: 3,
      reduce_bucket_size: 589824,
      offload_optimizer: { device: "cpu" },
      offload_param: { device: "cpu" },
    });
  });

  it("spells keys, names and numbers as DeepSpeed does", () => {
    const file = written(
      {
        bfloat16: true,
        gradient_clipping: "0.5",
        optimizer: { type: "adagrad" },
        scheduler: { type: "warmuplr", params: { warmup_num_steps: "10" } },
        zero_optimization: { prefetch_bucket_size: "5e7", stage3_param_persitance_threshold: 1e5 },
      },
      { placement: onHost },
    );
    expect(file).toMatchObject({
      bf16: { enabled: true },
      gradient_clipping: 0.5,
      optimizer: { type: "Adagrad" },
      scheduler: { type: "WarmupLR", params: { warmup_num_steps: 10 } },
      zero_optimization: { stage3_prefetch_bucket_size: 5e7, stage3_param_persistence_threshold: 1e5 },
    });
    expect(file.zero_optimization).not.toHaveProperty("stage3_param_persitance_threshold");
  });

  it("has no key that DeepSpeed refuses, also where it is off", () => {
    const file = written({
      elasticity: { enabled: false },
      amp: { enabled: false },
      sparse_gradients: false,
      fp16: { enabled: true, opt_level: "O2", _comment: "half" },
      optimizer: { type: "Adam", params: { lr: 1e-3, max_grad_norm: 0 } },
      zero_optimization: { cpu_offload: true, cpu_offload_pin_memory: true, grad_hooks: true, "//": "old" },
    });
    expect(Object.keys(file).sort()).toEqual([
      "fp16",
      "gradient_accumulation_steps",
      "optimizer",
      "train_batch_size",
      "train_micro_batch_size_per_gpu",
      "zero_optimization",
    ]);
    expect(file).toMatchObject({ fp16: { enabled: true }, zero_optimization: { stage: 2 } });
    expect([file.fp16, file.zero_optimization]).toEqual([{ enabled: true }, { stage: 2 }]);
    expect(file.optimizer).toEqual({ type: "Adam", params: { lr: 1e-3 } });
  });

  it("keeps sizes of stage 3 and keys of the disk only where they act", () => {
    const settings = {
      zero_optimization: { sub_group_size: 1e8, stage3_max_live_parameters: 1e9, overlap_comm: true },
      shunya: { nvme_paths: ["/b"], disk_checksums: true, delayed_update: { start_step: 4 } },
    };
    expect(written(settings)).toMatchObject({ shunya: { delayed_update: { start_step: 4 } } });
    expect(written(settings).zero_optimization).toEqual({ overlap_comm: true, stage: 2 });
    expect(written(settings).shunya).not.toHaveProperty("nvme_paths");
    const disk = { stage: 3, offloadOptimizer: "nvme", offloadParam: "none" } as const;
    expect(written(settings, { placement: disk })).toMatchObject({
      shunya: { nvme_paths: ["/b"], disk_checksums: true },
      zero_optimization: { sub_group_size: 1e8, offload_optimizer: { device: "nvme", nvme_path: "/local_nvme" } },
    });
  });

  it("says what the plan was told by flags, and allows PyTorch's SGD", () => {
    expect(written({ optimizer: { type: "SGD" } }, { checkpointing: true })).toMatchObject({
      shunya: { activation_checkpointing: true },
      zero_allow_untested_optimizer: true,
    });
    expect(written({ optimizer: { type: "Lion" } })).not.toHaveProperty("zero_allow_untested_optimizer");
  });

  it("refuses a ratio where DeepSpeed has none", () => {
    const settings = { zero_optimization: { offload_optimizer: { device: "cpu", ratio: 0.5 } } };
    const host = { stage: 2, offloadOptimizer: "cpu", offloadParam: "none" } as const;
    expect(() => written(settings, { placement: host })).toThrow(
      /ratio 0.5: DeepSpeed reads .* stage 2 is recommended/,
    );
    expect(written(settings, { placement: onHost })).toMatchObject({
      zero_optimization: { offload_optimizer: { device: "cpu", ratio: 0.5 } },
    });
    expect(written(settings).zero_optimization).toEqual({ stage: 2 });
  });

  it("is not written where only a run knows a value", () => {
    const scheduler = { type: "WarmupDecayLR", params: { total_num_steps: "auto" } };
    const autos = new Map([["scheduler.params.total_num_steps", Number.POSITIVE_INFINITY]]);
    expect(() => written({ scheduler }, { autos })).toThrow(/total_num_steps is "auto".*--set scheduler/);
  });
});
