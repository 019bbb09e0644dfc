// From spans of ops to rates of a core, and from those to a machine.
import { describe, expect, test } from "vitest";
import type { OpArgs, OpName } from "../../src/device/ops.ts";
import type { QueueName } from "../../src/device/queue.ts";
import {
  type Calibration,
  coreRates,
  isCalibration,
  machineOfCalibration,
  type Tally,
  tallySpan,
} from "../../src/hardware/calibration.ts";
import { opOf, secondsOf, segmentsOf } from "./machines.ts";

type Spanned = readonly [queue: QueueName, op: ReturnType<typeof opOf>, micros: number];

const product = { m: 1000, n: 1000, k: 1000, cType: "bf16", accumulate: false, preActivation: null } as const;
const attention = { batch: 1, seq: 999, heads: 10, kvHeads: 10, headDim: 100, keys: 999, window: 999 } as const;

/** What a rank of two did: rates that are easy to tell apart. */
const ran: readonly Spanned[] = [
  ["compute", opOf("matmul", { ...product, dtype: "bf16" }), 2e4], // 2e9 operations: 1e11
  ["compute", opOf("matmul", { ...product, dtype: "bf16" }), 2e4],
  ["compute", opOf("matmul", { ...product, dtype: "f32" }), 4e4], // 5e10
  ["compute", opOf("matmul", { ...product, dtype: "f16" }), 8e4], // 2.5e10
  ...(["bf16", "f32", "f16"] as const).flatMap((dtype): Spanned[] => [
    ["compute", opOf("attention", { ...attention, dtype, dropProbability: 0 }), 1.998e4], // 4 x 1000 x 499,500: 1e11
    ["compute", opOf("attention", { ...attention, dtype, dropProbability: 0.1 }), 3.996e4], // 5e10
  ]),
  ["compute", opOf("gelu", { count: 1e6, dtype: "bf16" }), 1e3], // 4 MB: 4e9
  ["compute", opOf("copy", { bytes: 1e6 }), 200], // 2 MB: 1e10
  ["collective", opOf("allGather", { dtype: "bf16", segments: segmentsOf(1e6) }), 500], // 2 MB to the other: 4e9
  ["down", opOf("copy", { bytes: 1e6 }), 200], // 5e9
  ["update", opOf("adam", { count: 1e6, gradientType: "bf16", parameterType: "bf16", parameter: null }), 2.6e3], // 1e10
];

function tallied(spans: readonly Spanned[]): Map<string, Tally> {
  const tallies = new Map<string, Tally>();
  for (const [queue, { name, args }, micros] of spans) {
    const op = { op: name as OpName, args: args as OpArgs<OpName> };
    tallySpan(tallies, { queue, sequence: 1, start: 10, end: 10 + micros, scope: "", awaited: undefined, ...op }, 2);
  }
  return tallies;
}

const calibration: Calibration = {
  version: 1,
  measuredAt: "2024-05-01T00:00:00Z",
  processor: "a processor",
  cores: 2,
  memoryBytes: 8e9,
  core: coreRates(tallied(ran)),
  drive: undefined,
};

test("a rate is all work of a sort over all its time", () => {
  const { core } = calibration;
  expect(core.productsPerSecond).toEqual({ bf16: 1e11, fp32: 5e10, fp16: 2.5e10 });
  for (const type of ["fp32", "bf16", "fp16"] as const) {
    expect(core.attentionPerSecond[type]).toBeCloseTo(1e11, -2);
    expect(core.droppedAttentionPerSecond[type]).toBeCloseTo(5e10, -2);
  }
  expect(core.opBytesPerSecond).toEqual({ "gelu bf16": 4e9, copy: 1e10 });
  // 6 MB in 1.2 ms.
  expect(core.memoryBytesPerSecond).toBeCloseTo(5e9, -2);
  expect([core.collectiveBytesPerSecond, core.crossingBytesPerSecond, core.updateBytesPerSecond]).toEqual([
    4e9, 5e9, 1e10,
  ]);
});

test("waits, and ops whose time is that of their beginning, are no measurement", () => {
  const tallies = tallied([["compute", opOf("add", { count: 10, dtype: "f32" }), 1000]]);
  const wait = {
    queue: "compute",
    sequence: 1,
    start: 0,
    end: 1e6,
    scope: "",
    op: undefined,
    args: undefined,
  } as const;
  tallySpan(tallies, { ...wait, awaited: { queue: "up", sequence: 1 } }, 2);
  tallySpan(tallies, { ...wait, op: "upload", awaited: undefined }, 2);
  expect([...tallies]).toEqual([]);
});

describe("the machine of a calibration", () => {
  const machineOf = (ranks: number, threads: number) =>
    machineOfCalibration(calibration, { ranks, threads, memoryBytes: 8e9, diskBytes: 1e12 });

  test("ops cost what they were measured to cost, for a rank on each core", () => {
    const machine = machineOf(2, 1);
    for (const [queue, op, micros] of ran)
      expect(secondsOf(machine, 2, queue, op) / (micros / 1e6), `${op.name} on ${queue}`).toBeCloseTo(1, 6);
  });

  test("two threads halve what computes, and a collective is one thread's", () => {
    const of = (name: OpName) => ran.find(([, op]) => op.name === name)!;
    const machine = machineOf(1, 2);
    expect(secondsOf(machine, 1, "compute", of("gelu")[1])).toBeCloseTo(0.5e-3, 9);
    expect(secondsOf(machine, 1, "update", of("adam")[1])).toBeCloseTo(1.3e-3, 9);
    // Four ranks of a thread take turns on two cores.
    expect(secondsOf(machineOf(4, 1), 4, "compute", of("gelu")[1])).toBeCloseTo(2e-3, 9);
    expect(secondsOf(machineOf(4, 1), 4, "down", of("copy")[1])).toBeCloseTo(0.4e-3, 9);
  });
});

describe("a file of a calibration", () => {
  test("is read back as it was written", () => {
    const read: unknown = JSON.parse(JSON.stringify(calibration));
    expect(isCalibration(read)).toBe(true);
    expect(read).toEqual({ ...calibration, drive: undefined });
  });

  test("of one core has a rate of collectives too, and can be read back", () => {
    const alone = tallied(ran.filter(([queue]) => queue !== "collective"));
    const core = coreRates(alone);
    expect(core.collectiveBytesPerSecond).toBe(5e9);
    expect(isCalibration(JSON.parse(JSON.stringify({ ...calibration, cores: 1, core })))).toBe(true);
  });

  test.each([
    ["null", null],
    ["a list", []],
    ["another version", { ...calibration, version: 2 }],
    ["no core", { ...calibration, core: undefined }],
    ["a core without rates", { ...calibration, core: {} }],
    ["a rate that was not measured", { ...calibration, core: { ...calibration.core, crossingBytesPerSecond: null } }],
    ["an op's rate of 0", { ...calibration, core: { ...calibration.core, opBytesPerSecond: { copy: 0 } } }],
    ["a rate in words", { ...calibration, core: { ...calibration.core, memoryBytesPerSecond: "fast" } }],
    [
      "an element type left out",
      { ...calibration, core: { ...calibration.core, productsPerSecond: { fp32: 1e10, bf16: 1e10 } } },
    ],
    [
      "a drive without a rate",
      { ...calibration, drive: { folder: "x", readBytesPerSecond: 1e9, writeBytesPerSecond: 1e9 } },
    ],
  ])("that holds %s is none", (_, value) => {
    expect(isCalibration(value)).toBe(false);
  });
});
