// What ops cost on a machine of round numbers, computed by hand.
import { describe, expect, test } from "vitest";
import type { QueueName } from "../../src/device/queue.ts";
import { VirtualClock } from "../../src/device/virtual-clock.ts";
import { costsOf } from "../../src/hardware/costs.ts";
import type { Machine } from "../../src/hardware/machine.ts";
import { opOf, roundMachine, secondsOf, segmentsOf } from "./machines.ts";

const launch = 1e-5;
const product = { cType: "bf16", dtype: "bf16", accumulate: false, preActivation: null } as const;

describe("compute", () => {
  test("a large product takes the time of its operations", () => {
    // 2 x 1024 x 2048 x 4096 operations at 10^14.
    const op = opOf("matmul", { ...product, m: 1024, n: 2048, k: 4096 });
    expect(secondsOf(roundMachine, 1, "compute", op)).toBeCloseTo(171.79869184e-6 + launch, 12);
  });

  test("a product with one row takes the time of its bytes", () => {
    // (1 + 2048) x 4096 x 2 read and 2048 x 2 written, at 10^12.
    const op = opOf("matmul", { ...product, m: 1, n: 2048, k: 4096 });
    expect(secondsOf(roundMachine, 1, "compute", op)).toBeCloseTo(16.789504e-6 + launch, 12);
  });

  test("an element type has its own rate", () => {
    const op = opOf("matmul", { ...product, dtype: "f32", cType: "f32", m: 1024, n: 2048, k: 4096 });
    expect(secondsOf(roundMachine, 1, "compute", op)).toBeCloseTo(1717.9869184e-6 + launch, 12);
  });

  test("attention's causal half at its rate, and at another with dropout", () => {
    const sizes = { batch: 1, seq: 1023, heads: 16, kvHeads: 16, headDim: 64 } as const;
    const shape = { ...sizes, keys: 1023, window: 1023, dtype: "bf16" } as const;
    // 4 x 16 x 64 x (1023 x 1024 / 2) operations.
    const operations = 4096 * 523_776;
    const at = (dropProbability: number, name: "attention" | "attentionBackward" = "attention"): number =>
      secondsOf(roundMachine, 1, "compute", opOf(name, { ...shape, dropProbability }));
    expect(at(0)).toBeCloseTo(operations / 5e13 + launch, 12);
    expect(at(0.1)).toBeCloseTo(operations / 2e13 + launch, 12);
    expect(at(0, "attentionBackward")).toBeCloseTo((2.5 * operations) / 5e13 + launch, 12);
  });

  test("an op that is bound by memory, and those with rates of their own", () => {
    const add = opOf("add", { count: 1e6, dtype: "bf16" });
    expect(secondsOf(roundMachine, 1, "compute", add)).toBeCloseTo(6e-6 + launch, 12);
    const gelu = opOf("gelu", { count: 1e6, dtype: "bf16" });
    expect(secondsOf(roundMachine, 1, "compute", gelu)).toBeCloseTo(8e-6 + launch, 12);
    const geluInFp32 = opOf("gelu", { count: 1e6, dtype: "f32" });
    expect(secondsOf(roundMachine, 1, "compute", geluInFp32)).toBeCloseTo(8e-6 + launch, 12);
    // An op without an element type is known by its name alone.
    expect(secondsOf(roundMachine, 1, "compute", opOf("copy", { bytes: 1e6 }))).toBeCloseTo(1e-6 + launch, 12);
  });
});

describe("collectives", () => {
  // A million elements of 2 bytes of each rank.
  const gather = opOf("allGather", { dtype: "bf16", segments: segmentsOf(400_000, 600_000) });
  const scatter = opOf("reduceScatter", { srcType: "bf16", dstType: "f32", segments: segmentsOf(1_000_000) });

  test("a rank alone waits for nobody", () => {
    expect(costsOf(roundMachine, 1).of("collective", gather)).toEqual({ seconds: 0, uses: [] });
  });

  test.each([
    ["all-gather", gather],
    ["reduce-scatter, in the type that is sent", scatter],
  ])("%s among 4 ranks of a node: each takes in the parts of three", (_, op) => {
    // 3 x 2 MB at 10^11, three hops of a microsecond.
    expect(secondsOf(roundMachine, 4, "collective", op)).toBeCloseTo(60e-6 + 3e-6, 12);
  });

  test("among 16 ranks on 2 nodes: bound by the peers where the network is fast", () => {
    // Within: 15 x 2 MB at 10^11 = 300 us. Between: 8 x 2 MB over 8 shares of 10^10 = 200 us. 7 hops, and one of 10 us.
    expect(secondsOf(roundMachine, 16, "collective", gather)).toBeCloseTo(300e-6 + 7e-6 + 10e-6, 12);
  });

  test("among 16 ranks on 2 nodes: bound by the network where that is slow", () => {
    const slow: Machine = { ...roundMachine, networkLink: { ...roundMachine.networkLink, bytesPerSecond: 1e9 } };
    expect(secondsOf(slow, 16, "collective", gather)).toBeCloseTo(2000e-6 + 7e-6 + 10e-6, 12);
    expect(secondsOf(slow, 8, "collective", gather)).toBeCloseTo(140e-6 + 7e-6, 12);
  });

  test("ranks that have a node each know no peers", () => {
    const apart: Machine = { ...roundMachine, ranksPerNode: 1 };
    // 3 x 2 MB over one share, three hops between nodes.
    expect(secondsOf(apart, 4, "collective", gather)).toBeCloseTo(600e-6 + 30e-6, 12);
  });

  test("a broadcast sends what it sends once, a barrier nothing", () => {
    expect(secondsOf(roundMachine, 4, "collective", opOf("broadcast", { bytes: 8e6 }))).toBeCloseTo(63e-6, 12);
    expect(secondsOf(roundMachine, 4, "collective", opOf("barrier", {}))).toBeCloseTo(3e-6, 12);
  });
});

describe("between tiers", () => {
  test("a copy crosses once, each rank on its own link", () => {
    const copy = opOf("copy", { bytes: 1e6 });
    for (const queue of ["down", "up"] as const)
      for (const ranks of [1, 8, 16])
        expect(secondsOf(roundMachine, ranks, queue, copy)).toBeCloseTo(50e-6 + launch, 12);
  });

  test("an update has its share of the node's memory rate", () => {
    const adam = opOf("adam", { count: 1e6, gradientType: "bf16", parameterType: "bf16", parameter: null });
    // 26 MB at 8 x 10^10, divided among 1, 2 or 8 ranks of a node.
    const at = (ranks: number): number => secondsOf(roundMachine, ranks, "update", adam);
    expect([1, 2, 8, 16].map(at)).toEqual([325e-6, 650e-6, 2600e-6, 2600e-6].map((s) => expect.closeTo(s, 12)));
  });

  test("a drive is its node's, and each direction has its rate", () => {
    const at = (queue: "diskRead" | "diskWrite", ranks: number): number =>
      secondsOf(roundMachine, ranks, queue, opOf(queue, { bytes: 6e6 }));
    expect([at("diskRead", 1), at("diskWrite", 1)]).toEqual([expect.closeTo(2e-3, 12), expect.closeTo(3e-3, 12)]);
    expect([at("diskRead", 8), at("diskWrite", 16)]).toEqual([expect.closeTo(16e-3, 12), expect.closeTo(24e-3, 12)]);
  });
});

// --- what ops cost each other ---

type Given = readonly [queue: QueueName, op: ReturnType<typeof opOf>];

/** When each of some ops that are given at once ends, in seconds. */
function endsOf(machine: Machine, ranks: number, given: readonly Given[]): number[] {
  const costs = costsOf(machine, ranks);
  const clock = new VirtualClock(costs.capacity);
  for (const [queue] of given) clock.measure(queue, true);
  const events = given.map(([queue, op]) => ({
    queue,
    sequence: clock.issue(queue, { cost: costs.of(queue, op) }),
  }));
  for (const event of events) clock.runUntil(event);
  return given.map(([queue]) => clock.measure(queue, true)[2]! / 1e6);
}

describe("beside each other", () => {
  const gather: Given = ["collective", opOf("allGather", { dtype: "bf16", segments: segmentsOf(1e6) })];
  const down: Given = ["down", opOf("copy", { bytes: 1e6 })];
  const up: Given = ["up", opOf("copy", { bytes: 1e6 })];
  const add: Given = ["compute", opOf("add", { count: 1e7, dtype: "bf16" })];
  const adam: Given = ["update", opOf("adam", { count: 1e5, gradientType: "f32", parameter: null })];

  test("on a card with links of its own nothing disturbs anything", () => {
    const given = [gather, down, up, add, adam];
    const alone = given.map((one) => endsOf(roundMachine, 4, [one])[0]!);
    expect(endsOf(roundMachine, 4, given)).toEqual(alone.map((s) => expect.closeTo(s, 12)));
  });

  test("over PCIe without NVLink a collective and a copy slow each other, two copies of two directions do not", () => {
    const pcie: Machine = { ...roundMachine, shared: ["hostLink"] };
    // The gather takes 63 us, the copy 60 us: 120 us together, then 3 us of the gather alone.
    expect(endsOf(pcie, 4, [gather, down])).toEqual([expect.closeTo(123e-6, 12), expect.closeTo(120e-6, 12)]);
    expect(endsOf(pcie, 4, [down, up])).toEqual([expect.closeTo(60e-6, 12), expect.closeTo(60e-6, 12)]);
    // A rank alone has nobody to share its link with.
    expect(endsOf(pcie, 1, [gather, down])).toEqual([0, expect.closeTo(60e-6, 12)]);
  });

  test("a drive that reads and writes at once does what it does of both", () => {
    const read: Given = ["diskRead", opOf("diskRead", { bytes: 3e9 })];
    const write: Given = ["diskWrite", opOf("diskWrite", { bytes: 2e9 })];
    // A second each alone; 5 GB at 3.5 GB/s together.
    expect(endsOf(roundMachine, 1, [read, write])).toEqual(Array(2).fill(expect.closeTo(5 / 3.5, 9)));
    expect(endsOf(roundMachine, 1, [read])).toEqual([expect.closeTo(1, 9)]);
  });

  test.each([
    ["never slower than turns", 1e9, 2],
    ["never faster than both alone", 9e9, 1],
  ])("reads and writes at once are %s", (_, mixedBytesPerSecond, seconds) => {
    const machine: Machine = { ...roundMachine, drive: { ...roundMachine.drive, mixedBytesPerSecond } };
    const read: Given = ["diskRead", opOf("diskRead", { bytes: 3e9 })];
    const write: Given = ["diskWrite", opOf("diskWrite", { bytes: 2e9 })];
    expect(endsOf(machine, 1, [read, write])).toEqual(Array(2).fill(expect.closeTo(seconds, 9)));
  });

  test("where device and host are the same cores everything that computes takes turns", () => {
    const cores: Machine = { ...roundMachine, threads: 2, shared: ["cores"] };
    // A collective works with one of two threads: beside it compute gets 1 of 1.5.
    const [gathered, added] = endsOf(cores, 4, [gather, add]);
    // 63 us of gathering last 94.5; meanwhile 63 of the 70 us of adding are done.
    expect([gathered, added]).toEqual([expect.closeTo(94.5e-6, 12), expect.closeTo(101.5e-6, 12)]);
    const alone = endsOf(cores, 4, [adam])[0]!;
    expect(alone).toBeCloseTo((1e5 * 28) / (8e10 / 4), 12);
    // Both with all threads: half the speed until the shorter one is done.
    expect(endsOf(cores, 4, [add, adam])).toEqual([expect.closeTo(140e-6, 12), expect.closeTo(alone + 70e-6, 12)]);
    // A drive has no use for cores.
    const read: Given = ["diskRead", opOf("diskRead", { bytes: 3e6 })];
    expect(endsOf(cores, 4, [read, add])[1]).toBeCloseTo(70e-6, 12);
  });
});
