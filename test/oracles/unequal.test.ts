// The loss is the mean over the target tokens of the global batch, also where micro-batches have unequal numbers of them, or none:
// PyTorch's losses, however the batch is divided among ranks and micro-batches (make_unequal.py made the numbers).
import { describe, expect, test } from "vitest";
import type { Job } from "../laws/jobs.ts";
import { run } from "../laws/pool.ts";
import { type Curve, expectCurve, oraclePath, readOracle, type TrainingSettings, trainingJob } from "./training.ts";

const folders = { gpt2: oraclePath("gpt2-tiny/model"), llama: oraclePath("llama-family/llama") } as const;
const expected = readOracle<
  TrainingSettings & {
    readonly answers: readonly (readonly [number, number])[];
    readonly gpt2: Curve;
    readonly llama: Curve;
  }
>("unequal.json");

const jobOf = async (name: keyof typeof folders, stage: number, accumulation: number): Promise<Job> => ({
  ...(await trainingJob(folders[name], stage, expected, { gradient_accumulation_steps: accumulation })),
  answers: expected.answers,
});

describe("the mean over the targets of the global batch is PyTorch's", () => {
  for (const name of ["gpt2", "llama"] as const)
    for (const ranks of [1, 2, 4])
      for (const accumulation of name === "gpt2" ? [1, 2] : [2])
        test(`${name}, ${ranks} ranks, ${accumulation} micro-batches, stages 0 to 3`, async () => {
          const runs = [];
          for (const stage of [0, 1, 2, 3]) runs.push(await run(ranks, await jobOf(name, stage, accumulation)));
          expect(expected[name].losses).toHaveLength(20);
          for (const [stage, { records, weightsHash }] of runs.entries()) {
            expectCurve(records, expected[name]);
            // With accumulation stages 2 and 3 add in another order than 0 and 1 (docs/laws.md).
            const same = runs[accumulation === 1 ? 0 : stage & 2]!;
            expect(records.map((r) => r.loss)).toEqual(same.records.map((r) => r.loss));
            expect(weightsHash).toBe(same.weightsHash);
          }
        });

  test("some ranks have micro-batches without any target", () => {
    const { answers, global_batch: batch } = expected;
    const countOf = (first: number, samples: number): number =>
      answers.slice(first, first + samples).reduce((sum, [from, end]) => sum + end - from, 0);
    const ofTwo = Array.from({ length: answers.length / 2 }, (_, i) => countOf(2 * i, 2));
    expect(ofTwo.filter((count) => count === 0).length).toBeGreaterThan(3);
    expect(new Set(ofTwo.slice(0, batch / 2)).size).toBeGreaterThan(2);
  });
});
