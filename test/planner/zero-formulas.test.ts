import { describe, expect, test } from "vitest";
import type { Stage } from "../../src/config/types.ts";
import { zeroStageMemory } from "../../src/index.ts";
import { commVolume, largestByStates, sentElements } from "../../src/planner/zero-formulas.ts";

const allStages = [0, 1, 2, 3] as const;
const gigabytes = (psi: number, ranks: number, K?: number): number[] =>
  allStages.map((stage) => zeroStageMemory(psi, ranks, stage, K));

/** As the paper prints it: some cells are rounded and some cut off, so that all that holds is less than one unit of the last digit. */
function expectPrinted(value: number, printed: string): void {
  const decimals = printed.split(".")[1]?.length ?? 0;
  expect(Math.abs(value - Number(printed)), `${value} is printed ${printed}`).toBeLessThan(10 ** -decimals);
}

// ZeRO, Table 1: GB of model states on a rank at stages 1, 2 and 3, for models of 7.5 and 128 billion and a trillion parameters.
const table1: readonly (readonly [number, string, string, string])[] = [
  [1, "120 120 120", "2048 2048 2048", "16000 16000 16000"],
  [4, "52.5 41.3 30", "896 704 512", "7000 5500 4000"],
  [16, "35.6 21.6 7.5", "608 368 128", "4750 2875 1000"],
  [64, "31.4 16.6 1.88", "536 284 32", "4187 2218 250"],
  [256, "30.4 15.4 0.47", "518 263 8", "4046 2054 62.5"],
  [1024, "30.1 15.1 0.12", "513 257 2", "4011 2013 15.6"],
];

test.each(table1)("Table 1 of ZeRO, %i ranks", (ranks, ...columns) => {
  for (const [i, psi] of [7.5e9, 128e9, 1e12].entries()) {
    expect(zeroStageMemory(psi, ranks, 0)).toBe((psi / 1e9) * 16);
    for (const [j, printed] of columns[i]!.split(" ").entries())
      expectPrinted(zeroStageMemory(psi, ranks, j + 1), printed);
  }
});

test("some cells of Table 1 to the last digit", () => {
  expect(zeroStageMemory(7.5e9, 1024, 3)).toBe(0.1171875);
  expect(zeroStageMemory(1e12, 1024, 2)).toBe(2013.671875);
  expect(zeroStageMemory(1e12, 256, 1)).toBe(4046.875);
});

// ZeRO, Table 2: billions of parameters on GPUs of 32 GB, 64 ranks, each of them `ways` GPUs that split the model.
const table2: readonly (readonly [number, readonly number[]])[] = [
  [1, [2, 7.6, 14.4, 128]],
  [2, [4, 15.2, 28.8, 256]],
  [4, [8, 30.4, 57.6, 500]],
  [8, [16, 60.8, 115.2, 1000]],
  [16, [32, 121.6, 230.4, 2000]],
];

test.each(table2)("Table 2 of ZeRO, models split %i ways", (ways, printed) => {
  const billions = allStages.map((stage) => largestByStates(32e9, 64, stage) / 1e9);
  for (const [stage, largest] of billions.entries()) {
    // The larger rows are the first one, which is rounded, times the ways; at stage 3 its 128 is a power of two that becomes 0.5T.
    const rounded = Math.round(largest * 10) / 10;
    expect(Math.abs(rounded * ways - printed[stage]!) / printed[stage]!).toBeLessThan(stage === 3 ? 0.025 : 1e-9);
  }
});

test("the first row of Table 2 before it is rounded", () => {
  const billions = allStages.map((stage) => largestByStates(32e9, 64, stage) / 1e9);
  for (const [i, value] of [2, 7.642, 14.423, 128].entries()) expect(billions[i]).toBeCloseTo(value, 3);
});

describe("model states in GB", () => {
  test.each([
    [1.5e9, 4, [24, 10.5, 8.25, 6]],
    [1.5e9, 8, [24, 8.25, 5.625, 3]],
    [1.5e9, 400, [24, 6.045, 3.0525, 0.06]],
    [7.5e9, 64, [120, 31.40625, 16.640625, 1.875]],
  ])("%s parameters on %i ranks", (psi, ranks, wanted) => {
    for (const [stage, value] of gigabytes(psi, ranks).entries()) expect(value).toBeCloseTo(wanted[stage]!, 10);
  });

  test("3e9 parameters on 8 ranks at stage 2", () => {
    expect(zeroStageMemory(3e9, 8, 2)).toBe(11.25);
  });

  test("Lion keeps 8 bytes of optimizer states", () => {
    expect(gigabytes(1.5e9, 4, 8)).toEqual([18, 9, 6.75, 4.5]);
  });

  test("one rank has all at every stage", () => {
    expect(gigabytes(1e9, 1)).toEqual([16, 16, 16, 16]);
  });
});

test.each([4, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])("stage %s is refused", (stage) => {
  expect(() => zeroStageMemory(1.5e9, 4, stage)).toThrow(new RangeError("stage must be 0-3"));
});

test.each([
  [0, 4, 12, "parameters must be a number above 0, not 0"],
  [-1, 4, 12, "parameters must be a number above 0, not -1"],
  [Number.NaN, 4, 12, "parameters must be a number above 0, not NaN"],
  [Number.POSITIVE_INFINITY, 4, 12, "parameters must be a number above 0, not Infinity"],
  [1e9, 0, 12, "ranks must be a whole number of at least 1, not 0"],
  [1e9, 2.5, 12, "ranks must be a whole number of at least 1, not 2.5"],
  [1e9, 4, -1, "optimizer bytes per parameter must be a number of at least 0, not -1"],
])("%s parameters on %s ranks with K = %s are refused", (psi, ranks, K, message) => {
  expect(() => zeroStageMemory(psi, ranks, 1, K)).toThrow(new RangeError(message));
});

describe("communication", () => {
  const volumes = (traffic: Parameters<typeof commVolume>[1]): number[] =>
    allStages.map((stage) => commVolume(stage, traffic));

  test("2, 2, 2 and 3 times the parameters", () => {
    expect(volumes({ parameters: 1.5e9 })).toEqual([3e9, 3e9, 3e9, 4.5e9]);
  });

  test("with micro-batches gradients that rest in shards are reduced again, and parameters gathered again", () => {
    expect(volumes({ parameters: 100, accumulation: 4 })).toEqual([200, 200, 500, 1200]);
  });

  test("frozen parameters are gathered, and neither reduced nor published", () => {
    expect(volumes({ parameters: 100, trainable: 10, accumulation: 2 })).toEqual([20, 20, 30, 420]);
  });

  test("a rank sends all but its own part", () => {
    expect(sentElements(3, { parameters: 1.5e9 }, 4)).toBe(3.375e9);
    expect(sentElements(1, { parameters: 1.5e9 }, 4)).toBe(2.25e9);
    expect(sentElements(3, { parameters: 1.5e9 }, 1)).toBe(0);
  });

  test("what makes no sense is refused", () => {
    expect(() => commVolume(4 as Stage, { parameters: 1 })).toThrow(new RangeError("stage must be 0-3"));
    expect(() => commVolume(2, { parameters: 1, accumulation: 0 })).toThrow("accumulation must be a whole number");
    expect(() => sentElements(2, { parameters: 1 }, 0)).toThrow("ranks must be a whole number");
  });
});
