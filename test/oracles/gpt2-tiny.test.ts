// Training is PyTorch's: the same losses, gradient norms and final weights, at every stage and in every world that divides the
// batch. gpt2-tiny/ holds what PyTorch made of it (make_gpt2.py beside it).
import { describe, expect, test } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import type { Job } from "../laws/jobs.ts";
import { run } from "../laws/pool.ts";
import {
  type Curve,
  expectCurve,
  oraclePath,
  readOracle,
  relativeError,
  type TrainingSettings,
  trainingJob,
} from "./training.ts";

const folder = oraclePath("gpt2-tiny/");
const expected = readOracle<TrainingSettings & Curve>("gpt2-tiny/expected.json");

const jobOf = async (stage: number, precision: "fp32" | "bf16" | "fp16"): Promise<Job> => ({
  ...(await trainingJob(`${folder}model`, stage, expected, {
    bf16: { enabled: precision === "bf16" },
    fp16: { enabled: precision === "fp16" },
  })),
  wantsWeights: true,
});

/** The largest difference of any element of any tensor from the final weights. */
async function weightError(weights: ReadonlyMap<string, Float32Array>): Promise<number> {
  await using final = await openSafetensors(`${folder}final/model.safetensors`);
  let largest = 0;
  for (const [name, found] of weights) {
    const wanted = await final.readFloat32(name, 0, found.length);
    for (let i = 0; i < found.length; i++) largest = Math.max(largest, Math.abs(found[i]! - wanted[i]!));
  }
  return largest;
}

describe("gpt2-tiny is PyTorch's", () => {
  for (const stage of [0, 1, 2, 3])
    for (const ranks of [1, 2, 4])
      test(`fp32, stage ${stage}, ${ranks} ranks`, async () => {
        const { records, weights } = await run(ranks, await jobOf(stage, "fp32"));
        expect(records).toHaveLength(expected.steps);
        expectCurve(records, expected);
        expect(weights!.size).toBe(3 * 12 + 4);
        expect(await weightError(weights!)).toBeLessThan(1e-4);
      });

  for (const [stage, ranks] of [
    [0, 1],
    [2, 2],
    [3, 4],
  ] as const)
    for (const precision of ["bf16", "fp16"] as const)
      test(`${precision}, stage ${stage}, ${ranks} ranks`, async () => {
        const { records } = await run(ranks, await jobOf(stage, precision));
        const losses = records.map((r) => r.loss);
        expect(relativeError(losses, expected.losses)).toBeLessThan(0.01);
        // DeepSpeed's default scale is one that this model takes from the start.
        expect(records.every((r) => !r.skipped && r.lossScale === (precision === "fp16" ? 65536 : 1))).toBe(true);
      });

  test("the final weights are not the first ones, so that the comparison can fail", async () => {
    await using first = await openModelFolder(`${folder}model`);
    const name = "transformer.h.1.mlp.c_fc.weight";
    const values = await first.weights!.read(name, 0, 64 * 256);
    expect(await weightError(new Map([[name, values]]))).toBeGreaterThan(0.01);
  });
});
