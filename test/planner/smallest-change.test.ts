// Which change is the smallest, by estimates of a made-up job.
import { describe, expect, test } from "vitest";
import type { Placement } from "../../src/plan/placement.ts";
import type { Estimate } from "../../src/planner/estimate.ts";
import { leanerPlacement } from "../../src/planner/leaner.ts";
import { type EstimateVariant, smallestChange } from "../../src/planner/smallest-change.ts";

/** 40 GB of states: 30 of them optimizer, 5 gradients, 5 parameters; 4 ranks; 2 GB of activations a sample, 0.2 checkpointed. */
const estimateOf: EstimateVariant = (placement, { microBatch }, checkpointing): Estimate => {
  const { stage, offloadOptimizer, offloadParam } = placement;
  const share = (from: number): number => (stage >= from ? 1 / 4 : 1);
  const optimizer = 30e9 * share(1);
  const parameters = 5e9 * share(3);
  const device = {
    parametersBytes: offloadParam === "none" ? parameters : 0,
    gradientsBytes: 5e9 * share(2),
    optimizerBytes: offloadOptimizer === "none" ? optimizer : 0,
    activationsBytes: microBatch * (checkpointing ? 0.2e9 : 2e9),
    buffersBytes: 0,
  };
  const totalBytes = Object.values(device).reduce((sum, bytes) => sum + bytes, 0);
  const onHost = offloadOptimizer === "cpu" ? optimizer : 0;
  const onDisk = offloadOptimizer === "nvme" ? optimizer : 0;
  return {
    ...placement,
    microBatch,
    device: { ...device, totalBytes },
    hostBytes: onHost,
    diskBytes: onDisk,
    commElements: 0,
    parts: [],
  };
};

const plain: Placement = { stage: 1, offloadOptimizer: "none", offloadParam: "none" };
const asked = { placement: plain, microBatch: 8, gradientAccumulation: 2, checkpointing: false };
/** Of which 85 % may be taken, and all but 2 GB. */
const room = (deviceBytes: number, hostBytes = 1e12) => ({ deviceBytes, hostBytes, diskBytes: 1e12, hostSharers: 1 });

describe("the smallest change", () => {
  test("nothing, where the job fits: 17.5 + 16 = 33.5 GB", () => {
    expect(smallestChange(asked, room(40e9), estimateOf)).toMatchObject(asked);
  });

  test("a smaller micro-batch with more accumulation, as large as fits: 17.5 + 8 = 25.5 GB of 25.5", () => {
    const change = smallestChange(asked, room(30e9), estimateOf);
    expect(change).toMatchObject({ placement: plain, microBatch: 4, gradientAccumulation: 4, checkpointing: false });
  });

  test("then checkpointing, with the whole micro-batch: 17.5 + 1.6 = 19.1 GB", () => {
    const change = smallestChange(asked, room(22.5e9), estimateOf);
    expect(change).toMatchObject({ placement: plain, microBatch: 8, checkpointing: true });
  });

  test("then the next stage, with what is cheaper: 13.75 + 2 GB", () => {
    const change = smallestChange(asked, room(19e9), estimateOf);
    expect(change).toMatchObject({
      placement: { stage: 2 },
      microBatch: 1,
      gradientAccumulation: 16,
      checkpointing: false,
    });
  });

  test("then the optimizer on the host, at the smallest stage: at 2 it takes 6.25 GB and 0.2 checkpointed, of 8", () => {
    const change = smallestChange({ ...asked, microBatch: 1 }, room(10e9), estimateOf);
    expect(change).toMatchObject({ placement: { stage: 2, offloadOptimizer: "cpu" }, checkpointing: true });
  });

  test("then disk, where the host has no room either", () => {
    const change = smallestChange({ ...asked, microBatch: 1 }, room(8e9, 4e9), estimateOf);
    expect(change).toMatchObject({ placement: { stage: 3, offloadOptimizer: "nvme", offloadParam: "none" } });
  });

  test("none, where nothing fits", () => {
    expect(smallestChange(asked, room(2e9), estimateOf)).toBeUndefined();
  });

  test("never gives up a stage or an offload that was asked for", () => {
    const offloaded = { ...asked, placement: { stage: 2, offloadOptimizer: "cpu", offloadParam: "none" } as const };
    for (const deviceBytes of [9e9, 12e9, 20e9, 40e9]) {
      const change = smallestChange(offloaded, room(deviceBytes), estimateOf);
      expect(change!.placement.stage).toBeGreaterThanOrEqual(2);
      expect(change!.placement.offloadOptimizer).not.toBe("none");
    }
  });

  test("keeps the samples of a step, also for odd micro-batches", () => {
    const odd = { ...asked, microBatch: 15, gradientAccumulation: 3 };
    for (const deviceBytes of [24e9, 30e9, 36e9]) {
      const { microBatch, gradientAccumulation } = smallestChange(odd, room(deviceBytes), estimateOf)!;
      expect(microBatch * gradientAccumulation).toBe(45);
    }
  });
});

describe("a leaner placement", () => {
  const at = (placement: Placement) => estimateOf(placement, { microBatch: 1, gradientAccumulation: 1 }, false);

  test("the offload that is not needed: stage 1 takes 19.5 GB", () => {
    const placement = { stage: 2, offloadOptimizer: "cpu", offloadParam: "none" } as const;
    const found = leanerPlacement(placement, room(24e9), at);
    expect(found).toMatchObject({ stage: 1, offloadOptimizer: "none" });
  });

  test("none, where it is needed: without it stage 3 takes 12 GB, and with it stage 2 takes 8.25", () => {
    const placement = { stage: 3, offloadOptimizer: "cpu", offloadParam: "none" } as const;
    expect(leanerPlacement(placement, room(10e9), at)).toBeUndefined();
    expect(leanerPlacement(placement, room(10.5e9), at)).toMatchObject({ stage: 2, offloadOptimizer: "cpu" });
  });

  test("stage 2 where stage 3 was asked for: 13.75 + 2 GB fit 16.15", () => {
    expect(leanerPlacement({ ...plain, stage: 3 }, room(19e9), at)).toMatchObject({ stage: 2 });
  });

  test("of parameters that alone are offloaded, any that offloads nothing", () => {
    const placement = { stage: 3, offloadOptimizer: "none", offloadParam: "cpu" } as const;
    expect(leanerPlacement(placement, room(19e9), at)).toMatchObject({ stage: 2, offloadParam: "none" });
    expect(leanerPlacement(placement, room(9e9), at)).toBeUndefined();
  });
});
