/** Collectives between real processes over shared memory: exact values, and every way in which ranks can fall apart. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DType, dtypeBytes } from "../../src/device/dtype.ts";
import { loadNative } from "../../src/device/native.ts";
import { RankPool, type TestGroup } from "./rank-process.ts";
import { fromBytes, noise, rounded, toBytes } from "./support.ts";

const native = loadNative();
let pool: RankPool;
beforeAll(() => {
  pool = new RankPool(7, 40, 8 << 20);
});
afterAll(() => pool.close());

const pieces = [
  { whole: 0, own: 1 << 20, stride: 1003, start: 3, count: 1000 },
  { whole: 1 << 18, own: (1 << 20) + 65536, stride: 17, start: 0, count: 17 },
];

/** Fills every rank's `whole` buffers; returns values[rank][piece]. */
function fillWholes(group: TestGroup, dtype: DType): Float64Array[][] {
  const world = group.members.length;
  return group.members.map(({ rank }) =>
    pieces.map((piece, p) => {
      const values = rounded(noise(piece.stride * world, 100 * rank + p, 4), dtype);
      group.write(rank, piece.whole, toBytes(values, dtype));
      return values;
    }),
  );
}

/** factor x the sum over ranks in rank order, in fp32. */
function wantedSums(values: Float64Array[][], owner: number, p: number, factor: number): Float64Array {
  const { stride, start, count } = pieces[p]!;
  return Float64Array.from({ length: count }, (_, i) => {
    const at = owner * stride + start + i;
    const sum = values.reduce((total, ofRank) => Math.fround(total + ofRank[p]![at]!), 0);
    return Math.fround(sum * Math.fround(factor));
  });
}

describe.each([1, 2, 3, 4, 7])("%i ranks", (world) => {
  it.each([
    ["f32", "f32", false],
    ["bf16", "bf16", false],
    ["bf16", "f32", true],
    ["f16", "f16", true],
  ] as const)(
    "reduce-scatter adds %s in rank order in fp32 and rounds the sum to %s (accumulate %s)",
    async (srcType, dstType, accumulate) => {
      const group = await pool.group(world);
      const values = fillWholes(group, srcType);
      const before = pieces.map((piece, p) => rounded(noise(piece.count, 900 + p), dstType));
      for (const { rank } of group.members)
        pieces.forEach((piece, p) => void group.write(rank, piece.own, toBytes(before[p]!, dstType)));
      const factor = 1 / 3;
      const call = { tag: 5, srcType, dstType, factor, accumulate };
      await group.all("reduceScatter", (member) => ({ ...call, segments: group.segments(member, pieces) }));
      for (const { rank } of group.members)
        pieces.forEach((piece, p) => {
          const found = fromBytes(group.read(rank, piece.own, piece.count * dtypeBytes[dstType]), dstType);
          const sums = rounded(wantedSums(values, rank, p, factor), dstType);
          const total = accumulate ? sums.map((sum, i) => Math.fround(before[p]![i]! + sum)) : sums;
          expect(found).toEqual(rounded(total, dstType));
        });
    },
  );

  it("all-gather, broadcast, barrier and exchange bring everybody's bytes", async () => {
    const group = await pool.group(world, 10_000, 2);
    const owns = group.members.map(({ rank }) =>
      pieces.map((piece, p) => {
        const bytes = toBytes(noise(piece.count, 7 * rank + p), "f32");
        group.write(rank, piece.own, bytes);
        return bytes;
      }),
    );
    await group.all("allGather", (m) => ({ tag: 1, dtype: "f32", segments: group.segments(m, pieces) }));
    for (const { rank } of group.members)
      pieces.forEach(({ whole, stride, start, count }, p) => {
        for (let q = 0; q < world; q++)
          expect(group.read(rank, whole + (q * stride + start) * 4, count * 4)).toEqual(owns[q]![p]);
      });

    const root = world - 1;
    group.write(root, 4 << 20, Uint8Array.of(1, 2, 3));
    const span = (arena: number) => ({ region: arena, offset: 4 << 20 });
    await group.all("broadcast", (m) => ({ tag: 2, bytes: 3, root, data: span(m.arena) }));
    await group.all("barrier", () => ({ tag: 3 }));
    for (const { rank } of group.members) expect([...group.read(rank, 4 << 20, 3)]).toEqual([1, 2, 3]);

    const payloads = group.members.map(({ rank }) => new Uint8Array(rank * 1000).fill(rank));
    const all = await Promise.all(
      group.members.map((m) => m.process.call<Uint8Array[]>("exchange", m.group, 4, payloads[m.rank])),
    );
    for (const received of all) expect(received.map((bytes) => new Uint8Array(bytes))).toEqual(payloads);
  });

  it("200 reduce-scatters and all-gathers in place, issued at once, keep their order", async () => {
    const group = await pool.group(world);
    const count = 501;
    const piece = (rank: number) => ({ whole: 0, own: rank * count * 4, stride: count, start: 0, count });
    for (const { rank } of group.members) group.write(rank, 0, toBytes(new Float64Array(count * world).fill(1), "f32"));
    const rounds = 100;
    await Promise.all(
      group.members.map(async (m) => {
        const segments = group.segments(m, [piece(m.rank)]);
        const reduce = { tag: 1, srcType: "f32", dstType: "f32", factor: 2 / world, accumulate: false } as const;
        const issued: Promise<number>[] = [];
        for (let round = 0; round < rounds; round++) {
          // Doubled and halved by turns, so that a call that ran twice or not at all shows.
          const factor = round % 2 ? 0.5 / world : reduce.factor;
          issued.push(group.issue(m, "reduceScatter", { ...reduce, factor, segments }));
          issued.push(group.issue(m, "allGather", { tag: 2, dtype: "f32", segments }));
        }
        const last = (await Promise.all(issued)).at(-1)!;
        await m.process.call("reached", m.queue, last);
      }),
    );
    for (const { rank } of group.members)
      for (const value of fromBytes(group.read(rank, 0, count * world * 4), "f32")) expect(value).toBeCloseTo(1, 3);
  });
});

describe("when ranks fall apart", () => {
  it("calls that differ are an error in every rank, with what each of them called", async () => {
    const group = await pool.group(3);
    const failures = await group.failures(
      group.members.map((m) => group.run(m, "barrier", { tag: m.rank === 1 ? 11 : 10 })),
    );
    for (const failure of failures) {
      expect(failure?.code).toBe("DESYNC");
      const { ranks } = JSON.parse(failure!.details) as { ranks: { rank: number; tag: number }[] };
      expect(ranks.map(({ rank, tag }) => [rank, tag])).toEqual([
        [0, 10],
        [1, 11],
        [2, 10],
      ]);
    }
  });

  it("so are pieces that differ, whatever their total", async () => {
    const group = await pool.group(2);
    const parts = (rank: number) => [
      { whole: 0, own: 65536, stride: 100, start: rank, count: 50 },
      { whole: 4096, own: 69632, stride: 100, start: 0, count: 50 },
    ];
    const failures = await group.failures(
      group.members.map((m) =>
        group.run(m, "allGather", { tag: 1, dtype: "f32", segments: group.segments(m, parts(m.rank)) }),
      ),
    );
    for (const failure of failures) expect(failure?.code).toBe("DESYNC");
  });

  it("a rank that does not come is named after the deadline, and the queue goes no further", async () => {
    const group = await pool.group(3, 300);
    const startMs = performance.now();
    const present = group.members.filter(({ rank }) => rank !== 1);
    const failures = await group.failures(present.map((m) => group.run(m, "barrier", { tag: 1 })));
    expect(performance.now() - startMs).toBeGreaterThan(250);
    expect(performance.now() - startMs).toBeLessThan(2000);
    for (const failure of failures) {
      expect(failure?.code).toBe("TIMEOUT");
      expect(JSON.parse(failure!.details)).toMatchObject({ op: expect.any(String), tag: 1, missing: [1] });
    }
    const [after] = await group.failures([group.run(group.members[0]!, "barrier", { tag: 2 })]);
    expect(after?.code).toBe("TIMEOUT");
  });

  it("an exchange has the same deadline and does not recover by itself", async () => {
    const group = await pool.group(2, 300);
    const [first] = group.members;
    const exchange = () => first!.process.call("exchange", first!.group, 9, Uint8Array.of(1));
    const [failure] = await group.failures([exchange()]);
    expect(failure?.code).toBe("TIMEOUT");
    expect(JSON.parse(failure!.details)).toMatchObject({ tag: 9, missing: [1] });
    const startMs = performance.now();
    const [again] = await group.failures([exchange()]);
    expect(again?.code).toBe("TIMEOUT");
    expect(performance.now() - startMs).toBeLessThan(200);
  });

  it("an abort ends waits now and later, in collectives and exchanges", async () => {
    const group = await pool.group(2);
    const [first] = group.members;
    const waiting = [
      group.run(first!, "barrier", { tag: 1 }),
      first!.process.call("exchange", first!.group, 2, new Uint8Array(1)),
    ];
    const outcome = group.failures(waiting);
    await sleep(100);
    const startMs = performance.now();
    native.abortGroup(group.control, 1, 7);
    for (const failure of await outcome) {
      expect(failure?.code).toBe("ABORTED");
      expect(JSON.parse(failure!.details)).toMatchObject({ rank: 1, exitCode: 7 });
    }
    expect(performance.now() - startMs).toBeLessThan(500);
    const later = group.members[1]!;
    const [afterwards] = await group.failures([group.run(later, "barrier", { tag: 1 })]);
    expect(afterwards?.code).toBe("ABORTED");
  });

  it("memory outside the arena is refused where it is issued", async () => {
    const group = await pool.group(2);
    const outside = [{ whole: pool.arenaBytes - 400, own: 0, stride: 100, start: 0, count: 100 }];
    const failures = await group.failures(
      group.members.map((m) =>
        group.issue(m, "allGather", { tag: 1, dtype: "f32", segments: group.segments(m, outside) }),
      ),
    );
    for (const failure of failures) expect(failure?.name).toBe("RangeError");
    const [tooLong] = await group.failures([
      group.members[0]!.process.call("exchange", group.members[0]!.group, 1, new Uint8Array((256 << 10) + 1)),
    ]);
    expect(tooLong?.name).toBe("RangeError");
  });

  it("pieces in another region than the arena are refused", async () => {
    const group = await pool.group(2);
    const [first] = group.members;
    const elsewhere = await first!.process.call<number>("createRegion", 1 << 20);
    const segments = group.segments({ ...first!, arena: elsewhere }, [
      { whole: 0, own: 65536, stride: 10, start: 0, count: 10 },
    ]);
    const [failure] = await group.failures([group.issue(first!, "allGather", { tag: 1, dtype: "f32", segments })]);
    expect(failure?.name).toBe("RangeError");
  });

  it("a destroyed queue or group does not wait for the deadline", async () => {
    const group = await pool.group(2, 60_000);
    const [first] = group.members;
    const waiting = group.failures([group.run(first!, "barrier", { tag: 1 })]);
    await sleep(50);
    const startMs = performance.now();
    await first!.process.call("destroyQueue", first!.queue);
    expect((await waiting)[0]).toBeDefined();
    expect(performance.now() - startMs).toBeLessThan(1000);
  });

  // Last: it costs a rank.
  it("a rank killed in the middle of a call is missed by the others within the deadline", async () => {
    const group = await pool.group(7, 1500);
    const victim = group.members[6]!;
    const survivors = group.members.slice(0, 6);
    const promises = survivors.map((m) => group.run(m, "barrier", { tag: 1 }));
    victim.process.process.kill("SIGKILL");
    for (const failure of await group.failures(promises)) {
      expect(failure?.code).toBe("TIMEOUT");
      expect(JSON.parse(failure!.details)).toMatchObject({ missing: [6] });
    }
  });
});
