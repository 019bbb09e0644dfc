// The recommendation: its order, and the largest micro-batch that fits.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { placements } from "../../src/plan/placement.ts";
import { batchChoice, largestThatFits, recommend } from "../../src/planner/recommend.ts";
import { allNames, estimateOf, placementName, wideRoom } from "./fakes.ts";

const one = batchChoice(1);

test("ways are tried by offloads first and by stage second", () => {
  expect(allNames).toEqual([
    ...["0", "1", "2", "3"],
    ...["1 cpu/none", "2 cpu/none", "3 cpu/none"],
    "3 cpu/cpu",
    ...["1 nvme/none", "2 nvme/none", "3 nvme/none"],
    "3 nvme/nvme",
  ]);
});

describe("the first that fits", () => {
  test.each(allNames.map((name, i) => [name, i] as const))("%s, where none before it does", async (name, index) => {
    // Everything from it on fits, so only the order decides.
    const fits = new Set(allNames.slice(index));
    const found = await recommend(
      async (placement, batch) =>
        estimateOf(placement, batch, { device: fits.has(placementName(placement)) ? 1e9 : 200e9 }),
      wideRoom,
      one,
    );
    expect("placement" in found && placementName(found.placement)).toBe(name);
    expect(found.tried.map(({ placement, fits }) => [placementName(placement), fits])).toEqual(
      allNames.slice(0, index + 1).map((tried, i) => [tried, i === index]),
    );
  });

  test("a smaller stage that fits its device but not its host is passed over", async () => {
    const found = await recommend(
      async (placement, batch) =>
        placement.offloadOptimizer === "none"
          ? estimateOf(placement, batch, { device: 200e9 })
          : estimateOf(placement, batch, { device: 1e9, host: placement.stage === 1 ? 90e9 : 10e9 }),
      { ...wideRoom, hostBytes: 50e9 },
      one,
    );
    expect("placement" in found && placementName(found.placement)).toBe("2 cpu/none");
  });

  test("what a configuration rules out is not tried", async () => {
    const found = await recommend(
      async (placement, batch) =>
        placement.stage < 2 ? undefined : estimateOf(placement, batch, { device: placement.stage === 2 ? 200e9 : 1e9 }),
      wideRoom,
      one,
    );
    expect(found.tried.map(({ placement }) => placementName(placement))).toEqual(["2", "3"]);
  });

  test("where nothing fits all that was tried comes back", async () => {
    const found = await recommend(
      async (placement, batch) => estimateOf(placement, batch, { device: 200e9 }),
      wideRoom,
      one,
    );
    expect("placement" in found).toBe(false);
    expect(found.tried.map(({ placement }) => placementName(placement))).toEqual(allNames);
  });
});

describe("how a batch may be divided", () => {
  test("a batch without end: any micro-batch, undivided", () => {
    const { splits } = batchChoice(undefined);
    expect(splits[0]).toEqual({ microBatch: 1, gradientAccumulation: 1 });
    expect(splits.at(-1)).toEqual({ microBatch: 256, gradientAccumulation: 1 });
    expect(splits.every(({ microBatch }, i) => microBatch === i + 1)).toBe(true);
  });

  test("a given batch: its divisors, the least micro-batch first", () => {
    expect(batchChoice(12).splits.map((s) => [s.microBatch, s.gradientAccumulation])).toEqual([
      [1, 12],
      [2, 6],
      [3, 4],
      [4, 3],
      [6, 2],
      [12, 1],
    ]);
    expect(batchChoice(9).splits.map((s) => s.microBatch)).toEqual([1, 3, 9]);
    expect(batchChoice(7).splits.map((s) => s.microBatch)).toEqual([1, 7]);
    expect(batchChoice(1).splits).toEqual([{ microBatch: 1, gradientAccumulation: 1 }]);
  });

  test("every division is one, none is left out, and a batch of any size is divided", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3000 }), (perRank) => {
        const { splits } = batchChoice(perRank);
        const all = Array.from({ length: perRank }, (_, i) => i + 1).filter((n) => perRank % n === 0);
        expect(splits.map((s) => s.microBatch)).toEqual(all);
        expect(splits.every((s) => s.microBatch * s.gradientAccumulation === perRank)).toBe(true);
      }),
    );
    expect(batchChoice(2 ** 40).splits).toHaveLength(41);
  });
});

describe("the largest micro-batch", () => {
  const place = placements()[0]!;

  test("equals that of trying all, for whatever grows with it", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 3000 }),
        fc.boolean(),
        fc.integer({ min: 0, max: 90 }),
        fc.integer({ min: 1, max: 3e9 }),
        async (perRank, isGiven, firstGigabytes, eachBytes) => {
          const { splits } = batchChoice(isGiven ? perRank : undefined);
          const bytesOf = (microBatch: number): number => firstGigabytes * 1e9 + microBatch * eachBytes;
          const expected = splits.filter(({ microBatch }) => bytesOf(microBatch) <= 85e9).at(-1);
          let asked = 0;
          const found = await largestThatFits(
            async (placement, batch) => {
              asked++;
              return estimateOf(placement, batch, { device: bytesOf(batch.microBatch) });
            },
            wideRoom,
            place,
            splits,
          );
          expect(found?.batch).toEqual(expected);
          expect(found?.estimate.microBatch).toBe(expected?.microBatch);
          // Halving, not counting.
          expect(asked).toBeLessThanOrEqual(2 * Math.ceil(Math.log2(splits.length + 1)) + 2);
        },
      ),
    );
  });

  test("a micro-batch that cannot be estimated is one that does not fit", async () => {
    const found = await largestThatFits(
      async (placement, batch) => (batch.microBatch > 5 ? undefined : estimateOf(placement, batch, { device: 1 })),
      wideRoom,
      place,
      batchChoice(undefined).splits,
    );
    expect(found?.batch.microBatch).toBe(5);
  });

  test("is recommended with the placement, and its estimate is that of the micro-batch", async () => {
    const found = await recommend(
      async (placement, batch) => estimateOf(placement, batch, { device: 40e9 + 10e9 * batch.microBatch }),
      wideRoom,
      batchChoice(12),
    );
    expect("placement" in found && [placementName(found.placement), found.batch]).toEqual([
      "0",
      { microBatch: 4, gradientAccumulation: 3 },
    ]);
    expect("placement" in found && found.estimate.device.totalBytes).toBe(80e9);
  });
});
