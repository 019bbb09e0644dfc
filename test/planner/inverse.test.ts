// Inverse questions against counting.
import { describe, expect, test } from "vitest";
import { fewestRanks, type Inverse, largestBatches, largestModels } from "../../src/planner/inverse.ts";
import { allNames, placementName, subjectOf, wideRoom } from "./fakes.ts";

const byName = (answers: readonly Inverse[]): Record<string, number | undefined> =>
  Object.fromEntries(answers.map(({ placement, answer }) => [placementName(placement), answer]));

/** 16 bytes a parameter, sharded at stage 3; offloaded: 2. */
const states = (parameters: number, ranks: number, stage: number, isOffloaded: boolean): number =>
  ((isOffloaded ? 2 : 16) * parameters) / (stage === 3 ? ranks : 1);

describe("the largest model", () => {
  const subject = subjectOf(({ parameters = 0, ranks }, { stage, offloadOptimizer }) => ({
    device: states(parameters, ranks, stage, offloadOptimizer !== "none"),
  }));

  test("of every way, to a hundredth, and never larger than what fits", async () => {
    const answers = await largestModels(subject);
    expect(answers.map(({ placement }) => placementName(placement))).toEqual(allNames);
    for (const { placement, answer } of answers) {
      const perParameter = states(1, 4, placement.stage, placement.offloadOptimizer !== "none");
      expect(answer! * perParameter).toBeLessThanOrEqual(85e9);
      expect(answer! * perParameter * 1.011).toBeGreaterThan(85e9);
    }
  });

  test("a device for no model at all has none", async () => {
    const small = subjectOf(({ parameters = 0 }) => ({ device: 1e6 * parameters }));
    expect(new Set(Object.values(byName(await largestModels(small))))).toEqual(new Set([undefined]));
  });

  test("a model that a way cannot have is none of that way", async () => {
    const without = subjectOf((_, { stage }) => (stage === 2 ? undefined : { device: 1e9 }));
    expect(byName(await largestModels(without))["2"]).toBeUndefined();
  });
});

describe("the fewest ranks", () => {
  const needs = (gigabytes: number) =>
    subjectOf(({ ranks }, { stage, offloadOptimizer }) => ({
      device: (gigabytes * 1e9) / (stage === 3 ? ranks : 1),
      host: offloadOptimizer === "none" ? 0 : 1,
    }));

  test.each([80, 86, 170, 171, 1000, 85 * 37, 85 * 37 + 1])("for %i GB of states equal counting", async (gigabytes) => {
    const counted = Array.from({ length: 100 }, (_, i) => i + 1).find((n) => gigabytes / n <= 85);
    const found = byName(await fewestRanks(needs(gigabytes)));
    expect(found["3"]).toBe(counted);
    expect(found["0"]).toBe(gigabytes <= 85 ? 1 : undefined);
  });

  test("fill their nodes", async () => {
    const subject = subjectOf(({ ranks }, { stage }) => ({ device: 85e9 * (stage === 3 ? 11 / ranks : 6 / ranks) }), {
      roomOf: ({ ranks }) => ({ ...wideRoom, hostSharers: Math.min(ranks, 8) }),
    });
    const found = byName(await fewestRanks(subject));
    expect([found["3"], found["0"]]).toEqual([16, 6]);
  });
});

test("the largest micro-batch of every way equals counting", async () => {
  const subject = subjectOf((_, { stage }, { microBatch }) => ({ device: 70e9 / (stage + 1) + 1.7e9 * microBatch }));
  const found = byName(await largestBatches(subject));
  for (const [name, answer] of Object.entries(found)) {
    const first = 70e9 / (Number(name[0]) + 1);
    expect(answer, name).toBe(Math.floor((85e9 - first) / 1.7e9));
  }
  const none = byName(await largestBatches(subjectOf(() => ({ device: 90e9 }))));
  expect(none["0"]).toBeUndefined();
});
