// The rule of fit at its edges.
import { describe, expect, test } from "vitest";
import { allowedBytes, deviceAllowance, headroomBytes, type RankRoom, shortagesOf } from "../../src/planner/fit.ts";
import { estimateOf, type Needs, wideRoom } from "./fakes.ts";

const plain = { stage: 0, offloadOptimizer: "none", offloadParam: "none" } as const;
const shortOf = (needs: Needs, room: RankRoom) =>
  shortagesOf(estimateOf(plain, { microBatch: 1, gradientAccumulation: 1 }, needs), room);

describe("of a device a job may take", () => {
  test.each([
    // 15 % of 13.33 GB are 2 GB: below that the 2 GB decide, above it the 85 %.
    [100e9, 85e9],
    [40e9, 34e9],
    [20e9, 17e9],
    [13e9, 11e9],
    [10e9, 8e9],
    [2.5e9, 0.5e9],
    [2e9, 0],
    [1e9, 0],
    [0, 0],
  ])("%d bytes: %d", (usable, allowed) => {
    expect(allowedBytes(usable)).toBeCloseTo(allowed, 0);
  });

  test("what stays free is that of all who share: 8 ranks of 4 GB each leave 2 GB of 32 together", () => {
    // Each may take 85 % of 4 GB, 3.4 GB; a quarter of a GB each stays free anyway.
    expect(allowedBytes(4e9, 8)).toBeCloseTo(3.4e9, 0);
    expect(allowedBytes(1e9, 8)).toBeCloseTo(0.75e9, 0);
    expect(allowedBytes(4e9, 1)).toBeCloseTo(2e9, 0);
  });

  test("the last byte fits, one more does not", () => {
    for (const deviceBytes of [100e9, 10e9]) {
      const room = { ...wideRoom, deviceBytes };
      const allowed = deviceAllowance(room);
      expect(shortOf({ device: allowed }, room)).toEqual([]);
      expect(shortOf({ device: allowed + 1 }, room)).toEqual(["device"]);
      expect(headroomBytes(estimateOf(plain, { microBatch: 1, gradientAccumulation: 1 }, { device: 1e9 }), room)).toBe(
        allowed - 1e9,
      );
      expect(
        headroomBytes(estimateOf(plain, { microBatch: 1, gradientAccumulation: 1 }, { device: allowed + 7 }), room),
      ).toBe(-7);
    }
  });
});

describe("shortages", () => {
  test("a host keeps its reserve, and nothing is asked of it where nothing is offloaded", () => {
    const room = { ...wideRoom, hostBytes: 50e9, hostSharers: 4 };
    expect(shortOf({ device: 0, host: 42.5e9 }, room)).toEqual([]);
    expect(shortOf({ device: 0, host: 42.5e9 + 1 }, room)).toEqual(["host"]);
    expect(shortOf({ device: 0, host: 0 }, { ...room, hostBytes: 0 })).toEqual([]);
    expect(shortOf({ device: 0, host: 1 }, { ...room, hostBytes: 0 })).toEqual(["host"]);
  });

  test("a disk may be filled", () => {
    const room = { ...wideRoom, diskBytes: 1e12 };
    expect(shortOf({ device: 0, disk: 1e12 }, room)).toEqual([]);
    expect(shortOf({ device: 0, disk: 1e12 + 1 }, room)).toEqual(["disk"]);
  });

  test("where device and host are one memory both must fit it together", () => {
    const room: RankRoom = { ...wideRoom, deviceBytes: 40e9, hostBytes: 40e9, hostSharers: 2, togetherBytes: 40e9 };
    // 85 % of 40 GB are 34.
    expect(shortOf({ device: 20e9, host: 14e9 }, room)).toEqual([]);
    expect(shortOf({ device: 20e9, host: 14e9 + 1 }, room)).toEqual(["together"]);
    expect(shortOf({ device: 34e9 + 1 }, room)).toEqual(["device", "together"]);
    // The reserve of a device that is a share of one memory is shared too: 85 % of 4 GB rather than 2 GB of it.
    const small = { ...room, deviceBytes: 4e9, togetherBytes: 4e9, hostSharers: 8 };
    expect(deviceAllowance(small)).toBeCloseTo(3.4e9, 0);
    expect(deviceAllowance({ ...wideRoom, deviceBytes: 4e9, hostSharers: 8 })).toBeCloseTo(2e9, 0);
  });

  test("all that is short is said", () => {
    const room = { ...wideRoom, deviceBytes: 10e9, hostBytes: 10e9, diskBytes: 10e9, togetherBytes: 10e9 };
    expect(shortOf({ device: 20e9, host: 20e9, disk: 20e9 }, room)).toEqual(["device", "host", "disk", "together"]);
  });
});
