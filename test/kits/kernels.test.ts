/** Elementwise kernels: conversions, activations, sums, products, fills and copies, against arithmetic in fp64. */
import { expect, it } from "vitest";
import { dtypeBytes } from "../../src/device/dtype.ts";
import {
  describeKernels,
  expectClose,
  expectSame,
  type FloatType,
  floatTypes,
  fromBytes,
  native,
  noise,
  rounded,
  sameForAnyWorkers,
  Workbench,
} from "./support.ts";

/** Around every vector length and its multiples, and beyond one task's share. */
const counts = [1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 100, 1023];
const specials = [0, -0, 1, -1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN];

const rootTwoOverPi = Math.sqrt(2 / Math.PI);

function gelu(x: number): number {
  return x / (1 + Math.exp(-2 * rootTwoOverPi * (x + 0.044715 * x ** 3)));
}

function geluSlope(x: number): number {
  const gate = 1 / (1 + Math.exp(-2 * rootTwoOverPi * (x + 0.044715 * x ** 3)));
  return gate + x * gate * (1 - gate) * 2 * rootTwoOverPi * (1 + 3 * 0.044715 * x * x);
}

/** Runs `body` for every count with operands off the vector boundary by one element. */
async function forSizes(
  isa: string,
  body: (bench: Workbench, count: number, skew: number) => Promise<void>,
  bytes = 2,
) {
  const bench = new Workbench(isa);
  try {
    for (const count of counts) await body(bench, count, (count % 5) * bytes);
  } finally {
    bench.close();
  }
}

/** The unit of the comparison of an fp32 formula with fp64: its own few roundings, and one to the dtype. */
const formulaUnits = (dtype: FloatType) => (dtype === "f32" ? 12 : 1.05);

describeKernels("elementwise kernels", (isa) => {
  it.each(floatTypes)("gelu and its gradient in %s", async (dtype) => {
    await forSizes(
      isa,
      async (bench, count, skew) => {
        const x = rounded(noise(count, count, 6), dtype);
        const dy = rounded(noise(count, count + 1), dtype);
        const spans = {
          x: bench.place(x, dtype, skew),
          dy: bench.place(dy, dtype),
          y: bench.place(x, dtype, 2 * skew),
        };
        await bench.run("gelu", { count, dtype, x: spans.x, y: spans.y });
        expectClose(
          bench.read(spans.y, count, dtype),
          x.map(gelu),
          dtype,
          formulaUnits(dtype),
          dtype === "f32" ? 0.01 : 0,
        );
        await bench.run("geluBackward", { count, dtype, dy: spans.dy, x: spans.x, dx: spans.dy });
        const wanted = x.map((v, i) => dy[i]! * geluSlope(v));
        expectClose(bench.read(spans.dy, count, dtype), wanted, dtype, formulaUnits(dtype), dtype === "f32" ? 1 : 0.1);
      },
      dtypeBytes[dtype],
    );
  });

  it("gelu of extreme values: the identity far right, zero far left, no NaN out of a finite value", async () => {
    const bench = new Workbench(isa);
    const values = [1e30, -1e30, 3e38, -3e38, 50, -50, Number.POSITIVE_INFINITY, Number.NaN];
    const x = bench.place(values, "f32");
    const y = bench.space(values.length * 4);
    await bench.run("gelu", { count: values.length, dtype: "f32", x, y });
    const large = Math.fround(1e30);
    const found = Array.from(bench.read(y, values.length, "f32"), (v) => v + 0);
    expect(found).toEqual([large, 0, Math.fround(3e38), 0, 50, 0, Number.POSITIVE_INFINITY, Number.NaN]);
    const dy = bench.place(
      values.map(() => 1),
      "f32",
    );
    await bench.run("geluBackward", { count: 6, dtype: "f32", dy, x, dx: y });
    expect(Array.from(bench.read(y, 6, "f32"), (v) => v + 0)).toEqual([1, 0, 1, 0, 1, 0]);
    bench.close();
  });

  it.each(floatTypes)("add, scale and multiply round once in %s", async (dtype) => {
    await forSizes(
      isa,
      async (bench, count, skew) => {
        const a = rounded([...specials, ...noise(count, 3, 4)].slice(0, count), dtype);
        const b = rounded(noise(count, 4, 0.1), dtype);
        const factor = Math.fround(-0.3);
        const spans = { a: bench.place(a, dtype, skew), b: bench.place(b, dtype), out: bench.place(a, dtype) };
        await bench.run("add", { count, dtype, a: spans.a, b: spans.b, out: spans.out });
        expectSame(
          bench.read(spans.out, count, dtype),
          rounded(
            a.map((v, i) => Math.fround(v + b[i]!)),
            dtype,
          ),
        );
        await bench.run("multiply", { count, dtype, a: spans.a, b: spans.b, out: spans.out });
        expectClose(
          bench.read(spans.out, count, dtype),
          rounded(
            a.map((v, i) => Math.fround(v * b[i]!)),
            dtype,
          ),
          dtype,
        );
        await bench.run("scale", { count, dtype, x: spans.a, factor, out: spans.a });
        expectClose(
          bench.read(spans.a, count, dtype),
          rounded(
            a.map((v) => Math.fround(v * factor)),
            dtype,
          ),
          dtype,
        );
      },
      dtypeBytes[dtype],
    );
  });

  it("casts between all floating dtypes, to nearest even, keeping inf and NaN", async () => {
    // Ties and their neighbours in bf16 and f16, the ends of f16's range and its subnormals.
    const edges = [
      1.00390625,
      1.01171875,
      1.00390626,
      1.00048828125,
      1.00146484375,
      65504,
      65519,
      65520,
      1e-7,
      2 ** -24,
      2 ** -25,
      1.5 * 2 ** -24,
      2 ** -14,
      6.1e-5,
      3.4e38,
      -65519.99,
    ];
    await forSizes(
      isa,
      async (bench, count, skew) => {
        const values = [...specials, ...edges, ...noise(count, 9, 300), ...noise(count, 10, 1e-5)];
        for (const from of floatTypes)
          for (const to of floatTypes) {
            const given = rounded(values, from);
            const src = bench.place(given, from, skew);
            const dst = bench.space(given.length * dtypeBytes[to], skew);
            await bench.run("cast", { count: given.length, srcType: from, dstType: to, src, dst });
            expectSame(bench.read(dst, given.length, to), rounded(given, to));
          }
      },
      4,
    );
  });

  it("fills every floating dtype, and only the given elements", async () => {
    await forSizes(isa, async (bench, count, skew) => {
      for (const dtype of floatTypes) {
        const dst = bench.place(new Array(count + 2).fill(7), dtype, skew - (skew % dtypeBytes[dtype]));
        await bench.run("fill", { count, dtype, value: -3, dst });
        expect(Array.from(bench.read(dst, count + 2, dtype))).toEqual([...new Array(count).fill(-3), 7, 7]);
      }
    });
  });

  it("copies any bytes, also where stores bypass the cache", async () => {
    const bench = new Workbench(isa, 2, 64 << 20);
    for (const [bytes, from, to] of [
      [1, 0, 0],
      [777, 2, 6],
      [(9 << 20) + 13, 2, 6],
      [(8 << 20) + 64, 0, 0],
    ] as const) {
      const given = new Uint8Array(bytes).map((_, i) => (i * 31 + (i >> 8)) & 255);
      const src = bench.space(bytes, from);
      const dst = bench.space(bytes + 64, to);
      const beyond = new Uint8Array(64).fill(9);
      native!.writeRegion(src.region, src.offset, given);
      native!.writeRegion(dst.region, dst.offset + bytes, beyond);
      await bench.run("copy", { bytes, src, dst });
      expect(Buffer.compare(bench.bytes(dst, bytes), given)).toBe(0);
      expect(bench.bytes({ region: dst.region, offset: dst.offset + bytes }, 64)).toEqual(beyond);
    }
    bench.close();
  });

  it("gives the same bits for any number of workers and wherever an element lies", async () => {
    const count = 100_003;
    const x = noise(count, 21, 5);
    const [whole] = await sameForAnyWorkers(isa, async (bench) => {
      const span = bench.place(x, "bf16", 2);
      const y = bench.space(count * 2);
      await bench.run("gelu", { count, dtype: "bf16", x: span, y });
      return [bench.bytes(y, count * 2)];
    });
    // Each of the first elements once more, alone: the tail of a vector computes what its middle does.
    const bench = new Workbench(isa);
    const span = bench.place(x.subarray(0, 40), "bf16");
    const y = bench.space(80);
    for (let i = 0; i < 40; i++) {
      const at = (s: typeof span) => ({ region: s.region, offset: s.offset + 2 * i });
      await bench.run("gelu", { count: 1, dtype: "bf16", x: at(span), y: at(y) });
    }
    expectSame(bench.read(y, 40, "bf16"), fromBytes(whole!.subarray(0, 80), "bf16"));
    bench.close();
  });
});
