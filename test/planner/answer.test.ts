// What a plan answers: rows, splits, the recommendation, and what would help.
import { describe, expect, test } from "vitest";
import { UsageError } from "../../src/errors/errors.ts";
import { answerPlan, doublings, halvings } from "../../src/planner/answer.ts";
import { wholeNodes } from "../../src/planner/subject.ts";
import { type Needs, placementName, plainVariant, subjectOf, wideRoom } from "./fakes.ts";

const nothingAsked = { stage: undefined, offloadOptimizer: "none", offloadParam: "none" } as const;

/** States that a stage shards, and activations of a sequence. */
const shardedNeeds = (stage: number, ranks: number, microBatch: number): Needs => ({
  device: [160e9, 40e9 + 120e9 / ranks, 20e9 + 140e9 / ranks, 160e9 / ranks][stage]! + 10e9 * microBatch,
});

describe("rows", () => {
  test("stages 0 to 3 beside each other, at the least micro-batch, with what is short and what is left", async () => {
    const subject = subjectOf(({ ranks }, { stage }, { microBatch }) => shardedNeeds(stage, ranks, microBatch));
    const { stages, recommended } = await answerPlan(subject, nothingAsked);
    expect(stages.map(({ placement, batch, short }) => [placement.stage, batch.microBatch, short])).toEqual([
      [0, 1, ["device"]],
      [1, 1, []],
      [2, 1, []],
      [3, 1, []],
    ]);
    expect(stages.map(({ headroomBytes }) => headroomBytes / 1e9)).toEqual([-85, 5, 20, 35]);
    expect(recommended?.placement.stage).toBe(1);
    expect(recommended?.batch).toEqual({ microBatch: 1, gradientAccumulation: 1 });
  });

  test("offloads that are asked for, as far as a stage allows them", async () => {
    const subject = subjectOf(() => ({ device: 1e9, host: 1e9 }));
    const namesOf = async (offloadOptimizer: "cpu" | "nvme", offloadParam: "none" | "cpu" | "nvme") =>
      (await answerPlan(subject, { stage: 3, offloadOptimizer, offloadParam })).stages.map(({ placement }) =>
        placementName(placement),
      );
    expect(await namesOf("cpu", "none")).toEqual(["0", "1 cpu/none", "2 cpu/none", "3 cpu/none"]);
    expect(await namesOf("cpu", "cpu")).toEqual(["0", "1 cpu/none", "2 cpu/none", "3 cpu/cpu"]);
    expect(await namesOf("nvme", "nvme")).toEqual(["0", "1 nvme/none", "2 nvme/none", "3 nvme/nvme"]);
  });

  test("a row that a configuration rules out is not shown", async () => {
    const subject = subjectOf((_, { stage }) => (stage === 0 ? undefined : { device: 1e9 }));
    const { stages, recommended } = await answerPlan(subject, nothingAsked);
    expect(stages.map(({ placement }) => placement.stage)).toEqual([1, 2, 3]);
    expect(recommended?.placement.stage).toBe(1);
  });

  test("stages are compared at the asked micro-batch, with what accumulates to the batch", async () => {
    const subject = subjectOf(() => ({ device: 1e9 }), { trainBatch: 32, microBatch: 2 });
    const { stages } = await answerPlan(subject, nothingAsked);
    expect(stages[3]!.batch).toEqual({ microBatch: 2, gradientAccumulation: 4 });
  });
});

describe("a batch that is given", () => {
  test("must be one of whole sequences on every rank", async () => {
    const subject = subjectOf(() => ({ device: 1e9 }), { trainBatch: 6 });
    await expect(answerPlan(subject, nothingAsked)).rejects.toThrow(UsageError);
    await expect(answerPlan(subject, nothingAsked)).rejects.toThrow(
      /--batch 6: .* over 4 ranks; wanted a multiple of 4/,
    );
  });

  test("is divided at the asked placement in every way, the undivided part of a rank first", async () => {
    const subject = subjectOf((_, __, { microBatch }) => ({ device: 5e9 + 20e9 * microBatch }), { trainBatch: 32 });
    const asked = { stage: 2, offloadOptimizer: "cpu", offloadParam: "none" } as const;
    const { splits, recommended } = await answerPlan(subject, asked);
    expect(
      splits.map(({ placement, batch, short }) => [
        placementName(placement),
        batch.microBatch,
        batch.gradientAccumulation,
        short.length,
      ]),
    ).toEqual([
      ["2 cpu/none", 8, 1, 1],
      ["2 cpu/none", 4, 2, 0],
      ["2 cpu/none", 2, 4, 0],
      ["2 cpu/none", 1, 8, 0],
    ]);
    expect(recommended?.batch).toEqual({ microBatch: 4, gradientAccumulation: 2 });
  });
});

describe("where nothing fits", () => {
  test("what would: checkpointing, shorter sequences, more ranks, each the least that does", async () => {
    // 70 GB of states at stage 3 on 4 ranks, 64 GB of activations at 1024 tokens, an eighth of that with checkpointing.
    const subject = subjectOf(({ ranks, seqLength, checkpointing }, { stage, offloadOptimizer }) => ({
      device:
        offloadOptimizer !== "none"
          ? 500e9
          : (stage === 3 ? 280e9 / ranks : 280e9) + (64e9 / (checkpointing ? 8 : 1)) * (seqLength / 1024),
    }));
    const { recommended, tried, remedies } = await answerPlan(subject, nothingAsked);
    expect(recommended).toBeUndefined();
    expect(tried).toHaveLength(12);
    expect(remedies.map(({ change, variant, placement }) => [change, variant, placement.stage])).toEqual([
      // 70 + 8; 70 + 8 at 128 tokens (70 + 16 is a GB too much); 280 / 16 + 64.
      ["checkpointing", { ...plainVariant, checkpointing: true }, 3],
      ["seqLength", { ...plainVariant, seqLength: 128 }, 3],
      ["ranks", { ...plainVariant, ranks: 16 }, 3],
    ]);
  });

  test("checkpointing is no remedy where it is on", async () => {
    const subject = subjectOf(({ ranks }) => ({ device: 400e9 / ranks }), {
      asked: { ...plainVariant, checkpointing: true },
    });
    const { remedies } = await answerPlan(subject, nothingAsked);
    expect(remedies.map(({ change, variant }) => [change, variant.ranks])).toEqual([["ranks", 8]]);
  });

  test("what would not help in the extreme is not tried on the way, and a device with no room is not asked at all", async () => {
    const hopeless = subjectOf(() => ({ device: 200e9 }));
    expect((await answerPlan(hopeless, nothingAsked)).remedies).toEqual([]);
    // Four stages, twelve ways, and twelve for each of five extremes: three changes alone, and two of them with checkpointing.
    expect(hopeless.asks).toHaveLength(4 + 12 + 60);
    // Where states alone are too much, fewer activations are no way out: only more ranks are asked about, without checkpointing and with.
    const heavy = subjectOf(() => ({ device: 200e9, states: 190e9 }));
    expect((await answerPlan(heavy, nothingAsked)).remedies).toEqual([]);
    expect(heavy.asks).toHaveLength(4 + 12 + 24);
    // Nor is a placement that is short of host memory.
    const narrow = subjectOf(
      (_, { offloadOptimizer }) => ({ device: 200e9, host: offloadOptimizer === "none" ? 0 : 1e12 }),
      {
        roomOf: () => ({ ...wideRoom, hostBytes: 64e9 }),
      },
    );
    expect((await answerPlan(narrow, nothingAsked)).remedies).toEqual([]);
    expect(narrow.asks).toHaveLength(4 + 12 + 4 + 4 + 12 + 4 + 12);
    const roomless = subjectOf(() => ({ device: 1 }), { roomOf: () => ({ ...wideRoom, deviceBytes: 1e9 }) });
    expect((await answerPlan(roomless, nothingAsked)).remedies).toEqual([]);
    expect(roomless.asks).toHaveLength(4 + 12);
  });

  test("more ranks fill their nodes", async () => {
    const subject = subjectOf(({ ranks }) => ({ device: 900e9 / ranks }), {
      asked: { ...plainVariant, ranks: 3 },
      roomOf: ({ ranks }) => ({ ...wideRoom, hostSharers: Math.min(ranks, 8) }),
    });
    const { remedies } = await answerPlan(subject, nothingAsked);
    // Not 12, which leaves a node of 8 half empty.
    expect(remedies.map(({ change, variant }) => [change, variant.ranks])).toEqual([["ranks", 16]]);
    expect([1, 5, 8, 9, 17].map((ranks) => wholeNodes(subject, ranks))).toEqual([1, 5, 8, 16, 24]);
  });

  test("halvings and doublings end where they are said to", () => {
    expect(halvings(1024, 128)).toEqual([512, 256, 128]);
    expect(halvings(1000, 128)).toEqual([500, 250]);
    expect(halvings(200, 128)).toEqual([]);
    expect(doublings(3, 20)).toEqual([6, 12]);
    expect(doublings(16, 16)).toEqual([]);
  });
});
