// Formulas of a model of which only the number of parameters is known: ZeRO's own (SC20, section 5), for 1.5e9 on 4 ranks.
import { expect, test } from "vitest";
import { resolveConfig } from "../../src/config/resolve.ts";
import type { OffloadDevice, Stage } from "../../src/config/types.ts";
import { expectedStates } from "../../src/plan/expected.ts";
import { planOfPsi } from "../../src/planner/psi-model.ts";

function gigabytes(stage: Stage, offload: OffloadDevice = "none", tier: "device" | "host" = "device"): number {
  const config = resolveConfig({
    worldSize: 4,
    overrides: [
      ["train_micro_batch_size_per_gpu", 1],
      ["bf16.enabled", true],
      ["zero_optimization.stage", stage],
      ["zero_optimization.offload_optimizer.device", offload],
    ],
  });
  const { parameters, gradients, optimizer, gathered } = expectedStates(planOfPsi(config, 1.5e9, 256), tier);
  expect(gathered.bytes).toBe(0);
  return (parameters.formulaBytes + gradients.formulaBytes + optimizer.formulaBytes) / 1e9;
}

test.each([
  [0, 24],
  [1, 10.5],
  [2, 8.25],
  [3, 6],
] as const)("stage %d: %d GB", (stage, expected) => {
  expect(gigabytes(stage)).toBe(expected);
});

test("with the optimizer on the host", () => {
  expect(gigabytes(2, "cpu")).toBe(3);
  expect(gigabytes(2, "cpu", "host")).toBe(5.25);
});

test("a ratio whose sub-groups are not known is said as it is written", () => {
  const config = resolveConfig({
    worldSize: 4,
    overrides: [
      ["train_micro_batch_size_per_gpu", 1],
      ["bf16.enabled", true],
      ["zero_optimization.stage", 3],
      ["zero_optimization.sub_group_size", 1e9],
      ["zero_optimization.offload_optimizer.device", "cpu"],
      ["zero_optimization.offload_optimizer.ratio", 0.3],
    ],
  });
  const plan = planOfPsi(config, undefined, 256);
  expect(expectedStates(plan, "host").optimizer.formula).toBe("12 0.300 psi / N");
});
