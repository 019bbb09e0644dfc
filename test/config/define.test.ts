// Types of a configuration in TypeScript: what must compile does, what must not is marked, and tsc checks the marks.
import { expect, test } from "vitest";
import { defineConfig } from "../../src/config/define.ts";
import { parseConfigObject } from "../../src/config/json.ts";
import { resolveConfig } from "../../src/config/resolve.ts";

test("a typed configuration resolves like the same file", () => {
  const config = defineConfig({
    train_micro_batch_size_per_gpu: 2,
    gradient_accumulation_steps: "auto",
    zero_optimization: { stage: 2, reduce_bucket_size: 5e8, offload_optimizer: { device: "none" } },
    bf16: { enabled: true },
    optimizer: { type: "AdamW", params: { lr: 1e-4, betas: [0.9, 0.95] } },
    shunya: { parameter_groups: [{ match: ["*.bias"], weight_decay: 0 }] },
  });
  const { stage, precision, trainBatch, parameterGroups } = resolveConfig({
    file: parseConfigObject(config),
    worldSize: 4,
  });
  expect({ stage, precision, trainBatch }).toEqual({ stage: 2, precision: "bf16", trainBatch: 8 });
  expect(parameterGroups).toHaveLength(1);
  const lr: 1e-4 = config.optimizer.params.lr; // the literal types are kept
  expect(lr).toBe(1e-4);
});

test("slips are errors of the compiler", () => {
  // @ts-expect-error an unknown key
  defineConfig({ train_batch: 8 });
  // @ts-expect-error an unknown key in a section
  defineConfig({ zero_optimization: { stages: 2 } });
  // @ts-expect-error no such stage
  defineConfig({ zero_optimization: { stage: 4 } });
  // @ts-expect-error a boolean is wanted
  defineConfig({ bf16: { enabled: "maybe" } });
  // @ts-expect-error no such optimizer
  defineConfig({ optimizer: { type: "Adamw2" } });
  // @ts-expect-error two numbers are wanted
  defineConfig({ optimizer: { params: { betas: [0.9] } } });
  // @ts-expect-error a section is wanted
  defineConfig({ zero_optimization: 2 });
  // @ts-expect-error a group without a pattern
  defineConfig({ shunya: { parameter_groups: [{ weight_decay: 0 }] } });
});
