/** Kernels of Llama's family: root-mean-square normalization, rotary positions, gated activation, against plain loops in fp64. */
import { expect, it } from "vitest";
import { dtypeBytes } from "../../src/device/dtype.ts";
import {
  describeKernels,
  expectClose,
  expectSame,
  type FloatType,
  floatTypes,
  noise,
  rounded,
  sameForAnyWorkers,
  Workbench,
} from "./support.ts";

const shapes = [
  [1, 1],
  [2, 5],
  [3, 16],
  [5, 33],
  [7, 100],
  [65, 19],
  [130, 48],
  [9, 768],
] as const;

/** Half spacings allowed to a formula with sums: many fp32 roundings in f32, one to the dtype otherwise. */
const sumUnits = (dtype: FloatType) => (dtype === "f32" ? 60 : 1.1);

function columnSums(x: ArrayLike<number>, cols: number): Float64Array {
  const out = new Float64Array(cols);
  for (let i = 0; i < x.length; i++) out[i % cols]! += x[i]!;
  return out;
}

const mean = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0) / x.length;

function normalize(x: Float64Array, cols: number, epsilon: number) {
  const rstds = Float64Array.from({ length: x.length / cols }, (_, r) => {
    const squares = Array.from(x.subarray(r * cols, (r + 1) * cols), (v) => v * v);
    return 1 / Math.sqrt(mean(squares) + epsilon);
  });
  return { rstds, xhat: x.map((v, i) => v * rstds[Math.floor(i / cols)]!) };
}

function normalizeGradient(dy: Float64Array, gamma: Float64Array, n: ReturnType<typeof normalize>): Float64Array {
  const cols = gamma.length;
  return dy.map((v, i) => {
    const first = i - (i % cols);
    const products = Array.from(gamma, (g, c) => g * dy[first + c]! * n.xhat[first + c]!);
    return n.rstds[first / cols]! * (v * gamma[i % cols]! - n.xhat[i]! * mean(products));
  });
}

describeKernels("root-mean-square normalization", (isa) => {
  it.each(floatTypes)("forward and backward in %s", async (dtype) => {
    const bench = new Workbench(isa);
    const skew = dtypeBytes[dtype];
    for (const [rows, cols] of shapes) {
      const count = rows * cols;
      const offset = (by: number) => (v: number) => v + by;
      const x = rounded(noise(count, 1, 2).map(offset(0.5)), dtype);
      const dy = rounded(noise(count, 2), dtype);
      const before = rounded(noise(count, 3), dtype);
      const gamma = rounded(noise(cols, 4).map(offset(1)), dtype);
      const epsilon = 1e-5;
      const wanted = normalize(x, cols, epsilon);
      const s = {
        x: bench.place(x, dtype, skew),
        gamma: bench.place(gamma, dtype, skew),
        y: bench.space(count * 4),
        rstd: bench.space(rows * 4),
        dy: bench.place(dy, dtype),
        dx: bench.place(before, dtype, skew),
        dgamma: bench.space(cols * 4),
      };
      await bench.run("rmsNorm", { rows, cols, dtype, epsilon, ...s });
      expectClose(bench.read(s.rstd, rows, "f32"), wanted.rstds, "f32", 40);
      const y = wanted.xhat.map((v, i) => v * gamma[i % cols]!);
      expectClose(bench.read(s.y, count, dtype), y, dtype, dtype === "f32" ? 40 : 1.1);

      const flags = { rows, cols, dtype, accumulateInput: true, accumulateParameter: false };
      await bench.run("rmsNormBackward", { ...flags, ...s });
      const alone = normalizeGradient(dy, gamma, wanted);
      const floor = Math.max(1, ...wanted.rstds) * 2;
      const dx = alone.map((v, i) => v + before[i]!);
      expectClose(bench.read(s.dx, count, dtype), dx, dtype, sumUnits(dtype), floor);
      const dgamma = columnSums(
        dy.map((v, i) => v * wanted.xhat[i]!),
        cols,
      );
      expectClose(bench.read(s.dgamma, cols, dtype), dgamma, dtype, sumUnits(dtype), 4);

      await bench.run("rmsNormBackward", { ...flags, ...s, accumulateInput: false, accumulateParameter: true });
      const twice = rounded(dgamma, dtype).map((v, i) => v + dgamma[i]!);
      expectClose(bench.read(s.dgamma, cols, dtype), twice, dtype, sumUnits(dtype) * 2, 4);
      await bench.run("rmsNormBackward", { ...flags, ...s, accumulateInput: false, dgamma: null });
      expectClose(bench.read(s.dx, count, dtype), alone, dtype, sumUnits(dtype), floor);
    }
    bench.close();
  });

  it("passes NaN on, and no further than its row", async () => {
    const bench = new Workbench(isa);
    const x = noise(64, 8);
    x[63] = Number.NaN;
    const gamma = bench.place(new Array(32).fill(1), "f32");
    const s = { x: bench.place(x, "f32"), gamma, y: bench.space(256), rstd: bench.space(8) };
    await bench.run("rmsNorm", { rows: 2, cols: 32, dtype: "f32", epsilon: 1e-5, ...s });
    const y = bench.read(s.y, 64, "f32");
    expect(y.subarray(0, 32).every(Number.isFinite)).toBe(true);
    expect(y.subarray(32).every(Number.isNaN)).toBe(true);
    bench.close();
  });

  it("gives the same bits for any number of workers", async () => {
    const [rows, cols] = [517, 96];
    const count = rows * cols;
    await sameForAnyWorkers(isa, async (bench) => {
      const s = {
        x: bench.place(noise(count, 1), "f32"),
        gamma: bench.place(noise(cols, 2), "f32"),
        y: bench.space(4 * count),
        rstd: bench.space(4 * rows),
        dy: bench.place(noise(count, 4), "f32"),
        dx: bench.space(4 * count),
        dgamma: bench.space(4 * cols),
      };
      const shape = { rows, cols, dtype: "f32" } as const;
      await bench.run("rmsNorm", { ...shape, epsilon: 1e-5, ...s });
      await bench.run("rmsNormBackward", { ...shape, accumulateInput: false, accumulateParameter: false, ...s });
      return [bench.bytes(s.y, 4 * count), bench.bytes(s.dx, 4 * count), bench.bytes(s.dgamma, 4 * cols)];
    });
  });
});

/** Pair c of a head is elements c and half + c. */
function rotate(x: Float64Array, angles: Float64Array, heads: number, headDim: number, sign: 1 | -1): Float64Array {
  const half = headDim / 2;
  const places = angles.length / headDim;
  return x.map((v, i) => {
    const place = Math.floor(i / (heads * headDim)) % places;
    const c = i % headDim;
    const pair = c % half;
    const [cosine, sine] = [angles[place * headDim + pair]!, sign * angles[place * headDim + half + pair]!];
    return c < half ? v * cosine - x[i + half]! * sine : v * cosine + x[i - half]! * sine;
  });
}

/** Angles that grow with the place, as fp32 has their cosines and sines. */
function anglesOf(places: number, headDim: number): Float64Array {
  const half = headDim / 2;
  const value = (_: unknown, i: number): number => {
    const angle = Math.floor(i / headDim) * 100 ** (-(i % half) / half);
    return i % headDim < half ? Math.cos(angle) : Math.sin(angle);
  };
  return rounded(Float64Array.from({ length: places * headDim }, value), "f32");
}

describeKernels("rotary positions", (isa) => {
  const cases = [
    [1, 1, 1, 2],
    [6, 3, 2, 10],
    [10, 5, 3, 16],
    [6, 6, 1, 34],
    [8, 4, 2, 64],
    [4, 2, 1, 96],
  ] as const;

  it.each(floatTypes)("turn pairs by the angle of their place, and back, in %s", async (dtype) => {
    const bench = new Workbench(isa);
    for (const [rows, places, heads, headDim] of cases) {
      const count = rows * heads * headDim;
      const x = rounded(noise(count, headDim), dtype);
      const table = anglesOf(places, headDim);
      const angles = bench.place(table, "f32", 4);
      const s = { x: bench.place(x, dtype, dtypeBytes[dtype]), y: bench.space(count * 4) };
      const shape = { rows, places, heads, headDim, dtype, angles };
      await bench.run("rope", { ...shape, ...s, inverse: false });
      const units = dtype === "f32" ? 4 : 1.1;
      expectClose(bench.read(s.y, count, dtype), rotate(x, table, heads, headDim, 1), dtype, units, 0.5);
      // Where it was turned, and in place.
      const turned = bench.read(s.y, count, dtype);
      await bench.run("rope", { ...shape, x: s.y, y: s.y, inverse: true });
      expectClose(bench.read(s.y, count, dtype), rotate(turned, table, heads, headDim, -1), dtype, units, 0.5);
      expectClose(bench.read(s.y, count, dtype), x, dtype, 6, 1);
    }
    bench.close();
  });

  it("leave the first place as it is, and give the same bits for any number of workers", async () => {
    const [rows, places, heads, headDim] = [1024, 256, 4, 32];
    const count = rows * heads * headDim;
    const x = rounded(noise(count, 5), "bf16");
    const [bytes] = await sameForAnyWorkers(isa, async (bench) => {
      const s = { x: bench.place(x, "bf16"), y: bench.space(count * 2) };
      const angles = bench.place(anglesOf(places, headDim), "f32");
      await bench.run("rope", { rows, places, heads, headDim, dtype: "bf16", angles, inverse: false, ...s });
      const first = bench.read(s.y, heads * headDim, "bf16");
      expectSame(first, x.subarray(0, heads * headDim));
      return [bench.bytes(s.y, count * 2)];
    });
    expect(bytes!.length).toBe(count * 2);
  });
});

const logistic = (x: number): number => 1 / (1 + Math.exp(-x));
const silu = (x: number): number => x * logistic(x);
const siluSlope = (x: number): number => logistic(x) * (1 + x * logistic(-x));

describeKernels("gated activation", (isa) => {
  it.each(floatTypes)("and its gradients in %s", async (dtype) => {
    const bench = new Workbench(isa);
    const units = dtype === "f32" ? 12 : 1.05;
    for (const count of [1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 100, 1023]) {
      const gate = rounded(noise(count, count, 8), dtype);
      const up = rounded(noise(count, count + 1, 2), dtype);
      const dy = rounded(noise(count, count + 2), dtype);
      const skew = (count % 5) * dtypeBytes[dtype];
      const s = {
        gate: bench.place(gate, dtype, skew),
        up: bench.place(up, dtype),
        y: bench.space(count * 4, skew),
        dy: bench.place(dy, dtype),
        dgate: bench.space(count * 4),
      };
      await bench.run("siluMultiply", { count, dtype, ...s });
      const wanted = gate.map((g, i) => silu(g) * up[i]!);
      expectClose(bench.read(s.y, count, dtype), wanted, dtype, units, dtype === "f32" ? 0.1 : 0);
      // The gradient of `up` over the one it comes from.
      await bench.run("siluMultiplyBackward", { count, dtype, ...s, dup: s.dy });
      const dgate = gate.map((g, i) => dy[i]! * up[i]! * siluSlope(g));
      expectClose(bench.read(s.dgate, count, dtype), dgate, dtype, units, dtype === "f32" ? 1 : 0.1);
      const dup = gate.map((g, i) => dy[i]! * silu(g));
      expectClose(bench.read(s.dy, count, dtype), dup, dtype, units, dtype === "f32" ? 1 : 0);
    }
    bench.close();
  });

  it("of extreme values: the identity far right, zero far left, no NaN out of a finite value", async () => {
    const bench = new Workbench(isa);
    const gate = [1e30, -1e30, 3e38, -3e38, 120, -120, Number.POSITIVE_INFINITY, Number.NaN];
    const ones = bench.place(new Array(gate.length).fill(1), "f32");
    const s = {
      gate: bench.place(gate, "f32"),
      up: ones,
      y: bench.space(64),
      dgate: bench.space(64),
      dup: bench.space(64),
    };
    await bench.run("siluMultiply", { count: gate.length, dtype: "f32", ...s });
    const y = bench.read(s.y, gate.length, "f32");
    expect([...y].map(Math.abs)).toEqual([
      ...rounded([1e30, 0, 3e38, 0, 120, 0, Number.POSITIVE_INFINITY, Number.NaN], "f32"),
    ]);
    await bench.run("siluMultiplyBackward", { count: gate.length, dtype: "f32", ...s, dy: ones });
    const slopes = bench.read(s.dgate, gate.length, "f32");
    expect([...slopes.subarray(0, 6)].map(Math.abs)).toEqual([1, 0, 1, 0, 1, 0]);
    bench.close();
  });
});
