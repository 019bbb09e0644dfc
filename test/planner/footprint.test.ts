// Footprints from a handful of numbers, against the tables of the papers.

import { describe, expect, test } from "vitest";
import { planJob } from "../../src/cli/plan-subject.ts";
import type { Stage } from "../../src/config/types.ts";
import { type Placement, placements } from "../../src/plan/placement.ts";
import type { Estimate } from "../../src/planner/estimate.ts";
import type { RankRoom } from "../../src/planner/fit.ts";
import {
  commElementsOf,
  commInPsi,
  fittingRanks,
  footprintOf,
  footprintsOf,
  type PlannedFootprint,
  placedStates,
  placementAt,
  recommendationOf,
  statesBytes,
} from "../../src/planner/footprint.ts";

const adam = { parameters: 2, gradients: 2, optimizer: 12 };
const stages: readonly Stage[] = [0, 1, 2, 3];
const plain = (stage: Stage): Placement => ({ stage, offloadOptimizer: "none", offloadParam: "none" });

/** Gigabytes of model states on the device, by stage. */
const gigabytes = (parameters: number, ranks: number, bytesPerParameter = adam): number[] =>
  stages.map(
    (stage) => statesBytes(placedStates(plain(stage), { parameters, ranks }, bytesPerParameter), "device") / 1e9,
  );

test.each([
  [1.5e9, 4, [24, 10.5, 8.25, 6]],
  [1.5e9, 8, [24, 8.25, 5.625, 3]],
  [1.5e9, 400, [24, 6.045, 3.0525, 0.06]],
  [7.5e9, 64, [120, 31.40625, 16.640625, 1.875]],
  [1e12, 1024, [16000, 4011.71875, 2013.671875, 15.625]],
])("%d parameters on %d ranks", (parameters, ranks, wanted) => expect(gigabytes(parameters, ranks)).toEqual(wanted));

test("Lion keeps one moment less", () => {
  expect(gigabytes(1.5e9, 4, { ...adam, optimizer: 8 })).toEqual([18, 9, 6.75, 4.5]);
});

test("with offload each kind is in one tier", () => {
  const states = (placement: Placement): number[] => {
    const placed = placedStates(placement, { parameters: 1e9, ranks: 4 }, adam);
    return (["device", "host", "disk"] as const).map((tier) => statesBytes(placed, tier) / 1e9);
  };
  // Gradients that are whole stay on the device; shards of them go to the host, also where the optimizer is on disk.
  expect(states({ stage: 1, offloadOptimizer: "cpu", offloadParam: "none" })).toEqual([4, 3, 0]);
  expect(states({ stage: 2, offloadOptimizer: "cpu", offloadParam: "none" })).toEqual([2, 3.5, 0]);
  expect(states({ stage: 3, offloadOptimizer: "cpu", offloadParam: "cpu" })).toEqual([0, 4, 0]);
  expect(states({ stage: 2, offloadOptimizer: "nvme", offloadParam: "none" })).toEqual([2, 0.5, 3]);
  expect(states({ stage: 3, offloadOptimizer: "nvme", offloadParam: "nvme" })).toEqual([0, 0.5, 3.5]);
});

test("communication is 2, 2, 2, 3 times the parameters, less what is a rank's own", () => {
  expect(stages.map(commInPsi)).toEqual([2, 2, 2, 3]);
  expect(stages.map((stage) => commElementsOf(stage, 1.5e9, 4))).toEqual([2.25e9, 2.25e9, 2.25e9, 3.375e9]);
  expect(commElementsOf(3, 1e12, 1024)).toBe(2_997_070_312_500);
  expect(commElementsOf(0, 1e9, 1)).toBe(0);
});

const job = { parameters: 1e9, ranks: 4, microBatch: 2, sequenceLength: 512 };
const estimate = (stage: Stage, activationsBytes: number, buffersBytes: number): Estimate => ({
  ...plain(stage),
  microBatch: 2,
  device: { parametersBytes: 0, gradientsBytes: 0, optimizerBytes: 0, activationsBytes, buffersBytes, totalBytes: 0 },
  hostBytes: 0,
  diskBytes: 0,
  commElements: 0,
  parts: [],
});
const planned: PlannedFootprint = {
  job,
  bytesPerParameter: adam,
  estimates: [estimate(0, 3e9, 1e8), estimate(3, 3e9, 4e8)],
};

describe("activations and buffers", () => {
  test("are the plan's at the planned job", () => {
    const { device } = footprintOf(planned, job, plain(3));
    expect(device).toMatchObject({ activationsBytes: 3e9, buffersBytes: 4e8, totalBytes: 4e9 + 3e9 + 4e8 });
  });

  test("grow with tokens, and with the power 2/3 of the parameters", () => {
    const longer = footprintOf(planned, { ...job, sequenceLength: 2048 }, plain(0)).device;
    expect([longer.activationsBytes, longer.buffersBytes]).toEqual([12e9, 1e8]);
    const larger = footprintOf(planned, { ...job, parameters: 8e9 }, plain(0)).device;
    expect(larger.activationsBytes).toBeCloseTo(12e9, -1);
    expect(larger.buffersBytes).toBeCloseTo(4e8, -1);
  });

  test("of a placement that was not planned are those of the one most like it", () => {
    expect(
      footprintOf(planned, job, { stage: 3, offloadOptimizer: "cpu", offloadParam: "cpu" }).device.buffersBytes,
    ).toBe(4e8);
  });

  test("staging on the host is kept apart from states", () => {
    const offloaded: Estimate = { ...estimate(2, 0, 0), offloadOptimizer: "cpu", hostBytes: 3.5e9 + 7e8 };
    const { hostBytes } = footprintOf({ ...planned, estimates: [offloaded] }, { ...job, parameters: 8e9 }, offloaded);
    expect(hostBytes).toBeCloseTo(8 * 3.5e9 + 4 * 7e8, -1);
  });
});

describe("host memory is about the engine's own where the optimizer is on the host", () => {
  const planOf = async (model: string, ranks: number, placement: Placement) => {
    const flags = { model, ranks, device: "A100-80GB", engine: "shunya", microBatch: 1, seqLength: 512 } as const;
    const { subject } = planJob(flags);
    const found = await subject.estimateOf(subject.asked)(placement, { microBatch: 1, gradientAccumulation: 1 });
    return { found: found!, job: { parameters: subject.parameters, ranks, microBatch: 1, sequenceLength: 512 } };
  };

  test.each([1, 2, 3] as const)("stage %d", async (stage) => {
    const placement: Placement = { stage, offloadOptimizer: "cpu", offloadParam: "none" };
    const own = await planOf("gpt2", 4, placement);
    const page: PlannedFootprint = { job: own.job, bytesPerParameter: adam, estimates: [own.found] };
    // Padding aside.
    expect(footprintOf(page, own.job, placement).hostBytes / own.found.hostBytes).toBeCloseTo(1, 6);
    const larger = await planOf("gpt2-large", 8, placement);
    const share = footprintOf(page, larger.job, placement).hostBytes / larger.found.hostBytes;
    expect(share).toBeGreaterThan(1);
    expect(share).toBeLessThan(1.03);
  });
});

test("with other ranks host and disk are the engine's own, wherever states are: staging is of a rank's shards", async () => {
  const estimateOf = async (ranks: number, placement: Placement) => {
    const { subject } = planJob({
      model: "gpt2",
      ranks,
      device: "A100-80GB",
      engine: "shunya",
      microBatch: 1,
      seqLength: 512,
    });
    const estimate = await subject.estimateOf(subject.asked)(placement, { microBatch: 1, gradientAccumulation: 1 });
    return { estimate: estimate!, job: { parameters: subject.parameters, ranks, microBatch: 1, sequenceLength: 512 } };
  };
  const offloaded = placements().filter(({ offloadOptimizer }) => offloadOptimizer !== "none");
  expect(offloaded).toHaveLength(8);
  for (const placement of offloaded) {
    const [own, other] = [await estimateOf(4, placement), await estimateOf(8, placement)];
    const page: PlannedFootprint = { job: own.job, bytesPerParameter: adam, estimates: [own.estimate] };
    for (const { job, estimate } of [own, other])
      for (const bytes of ["hostBytes", "diskBytes"] as const) {
        if (estimate[bytes] === 0) continue;
        const share = footprintOf(page, job, placement)[bytes] / estimate[bytes];
        expect(Math.abs(share - 1), JSON.stringify({ placement, ranks: job.ranks, bytes })).toBeLessThan(0.005);
      }
  }
});

describe("what is recommended", () => {
  const roomOf = (deviceBytes: number, hostBytes = 64e9): RankRoom => ({
    deviceBytes,
    hostBytes,
    diskBytes: 1e12,
    hostSharers: 1,
  });
  const best = (deviceBytes: number, hostBytes?: number): Placement | undefined =>
    recommendationOf(footprintsOf(planned, job), roomOf(deviceBytes, hostBytes));

  // On the device, with 3.1 GB beside them up to stage 2 and 3.4 at stage 3: 19.1, 10.1, 8.6, 7.4 GB; stages 0 and 1 are planned as 0.
  test.each([
    [19.1e9 / 0.85 + 1, plain(0)],
    [19e9 / 0.85, plain(1)],
    [7.4e9 + 2e9, plain(3)],
    [7.39e9 + 2e9, { stage: 1, offloadOptimizer: "cpu", offloadParam: "none" }],
  ])("with %d bytes", (deviceBytes, wanted) => expect(best(deviceBytes)).toMatchObject(wanted));

  test("no offload to a host that has no room", () => {
    expect(best(7e9, 2.6e9)).toMatchObject({ stage: 3, offloadOptimizer: "nvme", offloadParam: "none" });
  });

  test("nothing fits, and more ranks make it fit", () => {
    const large = { ...job, parameters: 30e9 };
    const card = roomOf(80e9, 0);
    expect(recommendationOf(footprintsOf(planned, large), { ...card, diskBytes: 0 })).toBeUndefined();
    expect(fittingRanks(planned, large, { ...card, diskBytes: 0 })).toMatchObject({ ranks: 16, stage: 3 });
    expect(fittingRanks(planned, large, roomOf(1e9))).toBeUndefined();
  });
});

test("a stage takes of an offload what it can", () => {
  const both = { offloadOptimizer: "nvme", offloadParam: "nvme" } as const;
  expect(stages.map((stage) => placementAt(stage, both))).toEqual([
    plain(0),
    { stage: 1, offloadOptimizer: "nvme", offloadParam: "none" },
    { stage: 2, offloadOptimizer: "nvme", offloadParam: "none" },
    { stage: 3, ...both },
  ]);
});
