import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { solveBatch } from "../../src/config/batch.ts";

type Given = [trainBatch: number | undefined, microBatch: number | undefined, accumulation: number | undefined];
const solve = ([trainBatch, microBatch, gradientAccumulation]: Given, worldSize: number) =>
  solveBatch({ trainBatch, microBatch, gradientAccumulation }, worldSize);

test("a refusal says where the number of ranks comes from", () => {
  const given = { trainBatch: 5, microBatch: undefined, gradientAccumulation: undefined };
  expect(solveBatch(given, 2, "the launcher")).toEqual({
    problem: expect.stringContaining("with 2 ranks (from the launcher)"),
  });
});

describe("DeepSpeed's vectors", () => {
  const solved: [worldSize: number, given: Given, wanted: [number, number, number]][] = [
    [2, [32, 16, 1], [32, 16, 1]],
    [2, [32, 8, undefined], [32, 8, 2]],
    [2, [32, undefined, 2], [32, 8, 2]],
    [2, [undefined, 16, 1], [32, 16, 1]],
    [2, [undefined, 16, undefined], [32, 16, 1]],
    [2, [32, undefined, undefined], [32, 16, 1]],
    [2, [32, 8, 2], [32, 8, 2]],
    [2, [undefined, 8, 2], [32, 8, 2]],
    [1, [64, undefined, undefined], [64, 64, 1]],
    [4, [undefined, 1, undefined], [4, 1, 1]],
    [4, [8, undefined, undefined], [8, 2, 1]],
    [7, [undefined, 3, 5], [105, 3, 5]],
  ];
  test.each(solved)("%i ranks, %j", (worldSize, given, [trainBatch, microBatch, gradientAccumulation]) => {
    expect(solve(given, worldSize)).toEqual({ batch: { trainBatch, microBatch, gradientAccumulation } });
  });

  const refused: [worldSize: number, given: Given, wanted: RegExp][] = [
    [2, [33, 17, undefined], /33 != 17 \* 0 \* 2 \(gradient_accumulation_steps was derived\).*train_batch_size 34,/],
    [2, [33, undefined, 2], /33 != 8 \* 2 \* 2 .*train_batch_size 32 or 36/],
    [2, [33, 17, 2], /33 != 17 \* 2 \* 2; /],
    [2, [32, 18, undefined], /32 != 18 \* 0 \* 2 /],
    [2, [32, 18, 1], /32 != 18 \* 1 \* 2; .*train_batch_size 36,/],
    [4, [6, undefined, undefined], /6 != 1 \* 1 \* 4 .*train_batch_size 4 or 8/],
    [8, [4, undefined, undefined], /4 != 0 \* 1 \* 8 .*train_batch_size 8,/],
    [4, [24, 4, undefined], /24 != 4 \* 1 \* 4 .*with 4 ranks \(from --ranks\) write train_batch_size 16 or 32, or /],
    [1, [undefined, undefined, 4], /no batch is given; .*--micro-batch/],
    [1, [undefined, undefined, undefined], /train_batch_size or train_micro_batch_size_per_gpu/],
    [4, [undefined, Number.MAX_SAFE_INTEGER, undefined], /2\^53/],
  ];
  test.each(refused)("%i ranks, %j is refused", (worldSize, given, wanted) => {
    const answer = solve(given, worldSize);
    expect("problem" in answer ? answer.problem : answer).toMatch(wanted);
  });
});

test("an answer keeps what was given and holds the identity; what it proposes instead is accepted", () => {
  const size = fc.option(fc.integer({ min: 1, max: 200 }), { nil: undefined });
  fc.assert(
    fc.property(size, size, size, fc.integer({ min: 1, max: 9 }), (trainBatch, microBatch, accumulation, worldSize) => {
      const answer = solve([trainBatch, microBatch, accumulation], worldSize);
      if ("batch" in answer) {
        const { batch } = answer;
        expect(batch.trainBatch).toBe(batch.microBatch * batch.gradientAccumulation * worldSize);
        expect([trainBatch ?? batch.trainBatch, microBatch ?? batch.microBatch]).toEqual([
          batch.trainBatch,
          batch.microBatch,
        ]);
        expect(accumulation ?? batch.gradientAccumulation).toBe(batch.gradientAccumulation);
      } else {
        const proposed = /write train_batch_size (\d+)(?: or (\d+))?/.exec(answer.problem);
        for (const text of proposed?.slice(1) ?? []) {
          if (text !== undefined)
            expect(solve([Number(text), microBatch, accumulation], worldSize)).toHaveProperty("batch");
        }
      }
    }),
  );
});
