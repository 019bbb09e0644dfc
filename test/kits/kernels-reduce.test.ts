/** The reduction of gradients: one resting buffer with one produced one, and several ranks' buffers in rank order. */
import { it } from "vitest";
import { type DType, dtypeBytes } from "../../src/device/dtype.ts";
import {
  describeKernels,
  expectSame,
  type FloatType,
  floatTypes,
  native,
  noise,
  rounded,
  Workbench,
} from "./support.ts";

/** Every rank's workbench and group, all in this process; closes them after `body`. */
async function withRanks(isa: string, world: number, body: (ranks: Workbench[], groups: number[]) => Promise<void>) {
  const ranks = Array.from({ length: world }, () => new Workbench(isa, 1, 4 << 20));
  const control = native!.createRegion(native!.controlBytes(world));
  const arenas = ranks.map((r) => r.region);
  const groups = ranks.map((_, rank) => native!.createGroup(rank, world, control, arenas, 10_000));
  try {
    await body(ranks, groups);
  } finally {
    for (const group of groups) native!.destroyGroup(group);
    for (const rank of ranks) rank.close();
    native!.closeRegion(control);
  }
}

interface Case {
  readonly srcType: FloatType;
  readonly dstType: FloatType;
  readonly factor: number;
  readonly accumulate: boolean;
}

/** What each rank ends up with: the sum in rank order in fp32, scaled and rounded; where it adds, that is added and rounded. */
function wantedOf(own: number, wholes: readonly Float64Array[], before: Float64Array, stride: number, c: Case) {
  const sums = rounded(
    before.map((_, i) => {
      const values = wholes.map((w) => w[own * stride + i]!);
      const total = values.reduce((sum, v) => Math.fround(sum + v));
      return Math.fround(total * Math.fround(c.factor));
    }),
    c.dstType,
  );
  return c.accumulate
    ? rounded(
        before.map((old, i) => Math.fround(old + sums[i]!)),
        c.dstType,
      )
    : sums;
}

describeKernels("reduce", (isa) => {
  it.each([1, 2, 3, 5])("adds the buffers of %i ranks in rank order, and rounds the sum", async (world) => {
    const cases: Case[] = [
      { srcType: "bf16", dstType: "bf16", factor: 1 / world, accumulate: false },
      { srcType: "bf16", dstType: "f32", factor: 0.3, accumulate: true },
      { srcType: "f16", dstType: "f16", factor: 0.5, accumulate: true },
      { srcType: "f32", dstType: "f32", factor: 1, accumulate: false },
    ];
    await withRanks(isa, world, async (ranks, groups) => {
      for (const count of [1, 16, 37, 1000])
        for (const c of cases) {
          const skew = dtypeBytes[c.srcType];
          const wholes = ranks.map((_, r) => rounded(noise(world * count, 31 + r), c.srcType));
          const befores = ranks.map((_, r) => rounded(noise(count, 77 + r), c.dstType));
          const spans = ranks.map((rank, r) => ({
            whole: rank.place(wholes[r]!, c.srcType, skew),
            own: rank.place(befores[r]!, c.dstType, dtypeBytes[c.dstType]),
          }));
          const issued = ranks.map((rank, r) => {
            const segments = [{ ...spans[r]!, stride: count, start: 0, count }];
            return rank.issue("reduceScatter", { group: groups[r]!, tag: 1, ...c, segments });
          });
          await Promise.all(ranks.map((rank, r) => native!.reached(rank.queue, issued[r]!)));
          for (const [r, rank] of ranks.entries())
            expectSame(rank.read(spans[r]!.own, count, c.dstType), wantedOf(r, wholes, befores[r]!, count, c));
        }
    });
  });

  it("may write into one of its sources", async () => {
    const count = 100;
    const dtype: DType = "bf16";
    await withRanks(isa, 3, async (ranks, groups) => {
      const wholes = ranks.map((_, r) => rounded(noise(3 * count, r + 1), dtype));
      const spans = ranks.map((rank, r) => rank.place(wholes[r]!, dtype));
      const own = (r: number) => ({ region: spans[r]!.region, offset: spans[r]!.offset + r * count * 2 });
      const c = { srcType: dtype, dstType: dtype, factor: 1, accumulate: false } as const;
      const issued = ranks.map((rank, r) => {
        const segments = [{ whole: spans[r]!, own: own(r), stride: count, start: 0, count }];
        return rank.issue("reduceScatter", { group: groups[r]!, tag: 2, ...c, segments });
      });
      await Promise.all(ranks.map((rank, r) => native!.reached(rank.queue, issued[r]!)));
      const before = new Float64Array(count);
      for (const [r, rank] of ranks.entries())
        expectSame(rank.read(own(r), count, dtype), wantedOf(r, wholes, before, count, c));
    });
  });
});

describeKernels("accumulate", (isa) => {
  it("adds a scaled gradient of any dtype to one of any other with one rounding", async () => {
    const bench = new Workbench(isa);
    for (const count of [1, 15, 16, 100, 1025])
      for (const srcType of floatTypes)
        for (const dstType of floatTypes)
          for (const accumulate of [false, true]) {
            const given = rounded(noise(count, 7), srcType);
            const before = rounded(noise(count, 8), dstType);
            const src = bench.place(given, srcType, dtypeBytes[srcType]);
            const dst = bench.place(before, dstType, dtypeBytes[dstType]);
            await bench.run("accumulate", { count, srcType, dstType, src, dst, factor: 0.5, accumulate });
            const wanted = given.map((v, i) => Math.fround((accumulate ? before[i]! : 0) + 0.5 * v));
            expectSame(bench.read(dst, count, dstType), rounded(wanted, dstType));
          }
    bench.close();
  });
});
