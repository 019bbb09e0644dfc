import { describe, expect, test } from "vitest";
import {
  accumulationThatHides,
  cpuAdamSeconds,
  hidingTokens,
  type OffloadRates,
  offloadLegs,
  offloadStepSeconds,
} from "../../src/planner/offload-time.ts";

/** 1.5e9 parameters and 2,048 tokens on one device of 150 TFLOP/s, whose link carries 25 GB/s. */
const job = { parameters: 1.5e9, tokens: 2048, ranks: 1, hosts: 1 };
const rates: OffloadRates = {
  operationsPerSecond: 150e12,
  linkBytesPerSecond: 25e9,
  updateSecondsPerBillion: cpuAdamSeconds.fast,
};

describe("four legs", () => {
  test("of one device", () => {
    const { compute, down, update, up } = offloadLegs(job, rates);
    expect(compute).toBeCloseTo(0.123, 3);
    expect(down).toBe(0.12);
    expect(up).toBe(0.12);
    expect(update).toBeCloseTo(0.33, 10);
    expect(offloadLegs(job, { ...rates, updateSecondsPerBillion: cpuAdamSeconds.slow }).update).toBeCloseTo(0.39, 10);
  });

  test("over a slower link", () => {
    expect(offloadLegs(job, { ...rates, linkBytesPerSecond: 12e9 }).down).toBe(0.25);
    expect(offloadLegs(job, { ...rates, linkBytesPerSecond: 7.88e9 }).down).toBeCloseTo(0.381, 3);
  });

  test("ranks share transfers, and hosts share the update", () => {
    const four = offloadLegs({ ...job, ranks: 4 }, rates);
    expect([four.down, four.up]).toEqual([0.03, 0.03]);
    expect(four.compute).toBeCloseTo(0.123, 3);
    expect(four.update).toBeCloseTo(0.33, 10);
    expect(offloadLegs({ ...job, ranks: 8, hosts: 2 }, rates).update).toBeCloseTo(0.165, 10);
  });

  // ZeRO-Offload, Table 4: seconds of CPU-Adam. The row of 8 billion (2.41 s) is out of line with those around it.
  test.each([
    [1e9, 0.22],
    [2e9, 0.51],
    [4e9, 1.03],
    [10e9, 2.57],
  ])("the update of %s parameters is that of the paper", (parameters, seconds) => {
    const update = (updateSecondsPerBillion: number): number =>
      offloadLegs({ ...job, parameters }, { ...rates, updateSecondsPerBillion }).update;
    expect(update(cpuAdamSeconds.fast)).toBeLessThanOrEqual(seconds);
    expect(update(cpuAdamSeconds.slow)).toBeGreaterThanOrEqual(seconds);
  });
});

describe("schedules", () => {
  test("each is at least as fast as the one before", () => {
    const seconds = offloadStepSeconds(offloadLegs(job, rates));
    // Forward 0.041, backward 0.082, down 0.12, update 0.33, up 0.12.
    expect(seconds.serial).toBeCloseTo(0.6929, 4);
    expect(seconds.overlapped).toBeCloseTo(0.491, 3);
    expect(seconds.earlyForward).toBeCloseTo(0.45, 3);
    expect(seconds.delayed).toBeCloseTo(0.33, 3);
  });

  test.each([
    { compute: 3, down: 1, update: 0.5, up: 1 },
    { compute: 3, down: 4, update: 0.1, up: 0.1 },
    { compute: 0.1, down: 1, update: 5, up: 9 },
  ])("that holds whatever is longest: %o", (legs) => {
    const { serial, overlapped, earlyForward, delayed } = offloadStepSeconds(legs);
    expect(overlapped).toBeLessThanOrEqual(serial);
    expect(earlyForward).toBeLessThanOrEqual(overlapped);
    expect(delayed).toBeLessThanOrEqual(earlyForward);
    expect(delayed).toBeGreaterThanOrEqual(legs.compute);
  });
});

describe("what hides", () => {
  test("a transfer from 2,000 tokens on, the update from many more", () => {
    const hiding = hidingTokens(job.parameters, offloadLegs(job, rates), rates);
    expect(hiding.transfer).toBeCloseTo(2000, 6);
    expect(hiding.overlapped).toBeCloseTo(3000, 6);
    expect(hiding.delayed).toBeCloseTo(5500, 6);
    expect(hiding.earlyForward).toBeCloseTo(16_500, 6);
  });

  test("from there on a step takes no longer than its compute", () => {
    const { earlyForward, delayed } = hidingTokens(job.parameters, offloadLegs(job, rates), rates);
    for (const [schedule, tokens] of Object.entries({ earlyForward, delayed })) {
      const name = schedule as "earlyForward" | "delayed";
      const enough = offloadLegs({ ...job, tokens: Math.ceil(tokens) }, rates);
      expect(offloadStepSeconds(enough)[name]).toBeCloseTo(enough.compute, 9);
      const fewer = offloadLegs({ ...job, tokens: 0.99 * tokens }, rates);
      expect(offloadStepSeconds(fewer)[name]).toBeGreaterThan(fewer.compute);
    }
  });

  test("at 12 GB/s a transfer takes twice the compute, which 3 micro-batches hide", () => {
    const { compute, down } = offloadLegs(job, { ...rates, linkBytesPerSecond: 12e9 });
    expect(down / compute).toBeCloseTo(2.03, 2);
    expect(accumulationThatHides(down, compute)).toBe(3);
    expect(accumulationThatHides(0.1, compute)).toBe(1);
  });
});
