/** Adam, the gradient norm and the accumulation of gradients, against plain loops in fp64. */
import { expect, it } from "vitest";
import { dtypeBytes } from "../../src/device/dtype.ts";
import {
  describeKernels,
  expectClose,
  expectSame,
  floatTypes,
  noise,
  rounded,
  sameForAnyWorkers,
  Workbench,
} from "./support.ts";

interface AdamState {
  w: Float64Array;
  m: Float64Array;
  v: Float64Array;
}

const hyper = { learningRate: 1e-2, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0.1 };

/** One step of torch.optim.AdamW (decoupled) or Adam, in fp64. */
function adamStep(s: AdamState, gradient: Float64Array, step: number, decoupled: boolean): void {
  const { learningRate, beta1, beta2, epsilon, weightDecay } = hyper;
  for (let i = 0; i < s.w.length; i++) {
    let g = gradient[i]!;
    if (decoupled) s.w[i]! *= 1 - learningRate * weightDecay;
    else g += weightDecay * s.w[i]!;
    s.m[i] = beta1 * s.m[i]! + (1 - beta1) * g;
    s.v[i] = beta2 * s.v[i]! + (1 - beta2) * g * g;
    const denominator = Math.sqrt(s.v[i]! / (1 - beta2 ** step)) + epsilon;
    s.w[i]! -= ((learningRate / (1 - beta1 ** step)) * s.m[i]!) / denominator;
  }
}

describeKernels("adam", (isa) => {
  for (const decoupled of [true, false])
    it.each(floatTypes)(
      `follows fp64 over 20 steps (decoupled ${decoupled}, gradients in %s)`,
      async (gradientType) => {
        const bench = new Workbench(isa);
        const count = 147;
        const skew = 4;
        const state = { w: rounded(noise(count, 1), "f32"), m: new Float64Array(count), v: new Float64Array(count) };
        const s = {
          master: bench.place(state.w, "f32", skew),
          firstMoment: bench.place(state.m, "f32"),
          secondMoment: bench.place(state.v, "f32", skew),
          gradient: bench.space(count * 4, dtypeBytes[gradientType]),
          parameter: bench.space(count * 2, 2),
        };
        for (let step = 1; step <= 20; step++) {
          const gradient = rounded(noise(count, 100 + step, 0.5 ** (step % 7)), gradientType);
          const { region, offset } = s.gradient;
          const placed = bench.place(gradient, gradientType);
          await bench.run("copy", { bytes: count * dtypeBytes[gradientType], src: placed, dst: { region, offset } });
          await bench.run("adam", {
            count,
            ...s,
            ...hyper,
            gradientType,
            parameterType: "bf16",
            decoupled,
            gradientScale: 0.25,
            correction1: 1 - hyper.beta1 ** step,
            correction2: 1 - hyper.beta2 ** step,
          });
          adamStep(
            state,
            gradient.map((g) => g * 0.25),
            step,
            decoupled,
          );
        }
        const master = bench.read(s.master, count, "f32");
        expectClose(master, state.w, "f32", 20, 1);
        expectClose(bench.read(s.firstMoment, count, "f32"), state.m, "f32", 20, 0.01);
        // Relative, without a floor: 1 - beta2 rounded as a float would be off by 1e-5.
        expectClose(bench.read(s.secondMoment, count, "f32"), state.v, "f32", 60);
        expectSame(bench.read(s.parameter, count, "bf16"), rounded(master, "bf16"));
        bench.close();
      },
    );

  it("leaves padding exactly zero, also with epsilon 0, and needs no 16-bit copy", async () => {
    const bench = new Workbench(isa);
    const zeros = new Array(19).fill(0);
    const place = () => bench.place(zeros, "f32");
    const s = { master: place(), firstMoment: place(), secondMoment: place(), gradient: place(), parameter: null };
    await bench.run("adam", {
      count: 19,
      ...s,
      ...hyper,
      epsilon: 0,
      gradientType: "f32",
      parameterType: "bf16",
      decoupled: true,
      gradientScale: 1,
      correction1: 0.1,
      correction2: 0.001,
    });
    for (const span of [s.master, s.firstMoment, s.secondMoment])
      expect(Buffer.compare(bench.bytes(span, 76), new Uint8Array(76))).toBe(0);
    bench.close();
  });

  it("gives the same bits for any number of workers", async () => {
    const count = 100_001;
    await sameForAnyWorkers(isa, async (bench) => {
      const s = {
        master: bench.place(noise(count, 1), "f32"),
        firstMoment: bench.place(noise(count, 2), "f32"),
        secondMoment: bench.place(noise(count, 3).map(Math.abs), "f32"),
        gradient: bench.place(noise(count, 4), "bf16"),
        parameter: bench.space(2 * count),
      };
      await bench.run("adam", {
        count,
        ...s,
        ...hyper,
        gradientType: "bf16",
        parameterType: "bf16",
        decoupled: true,
        gradientScale: 0.5,
        correction1: 0.3,
        correction2: 0.01,
      });
      return [
        bench.bytes(s.master, 4 * count),
        bench.bytes(s.secondMoment, 4 * count),
        bench.bytes(s.parameter, 2 * count),
      ];
    });
  });
});

describeKernels("sum of squares", (isa) => {
  it.each(floatTypes)("in fp64 over blocks, with the non-finite elements counted, in %s", async (dtype) => {
    const bench = new Workbench(isa);
    const out = bench.space(16);
    for (const [count, block] of [
      [1, 1],
      [17, 4096],
      [100, 7],
      [9001, 4096],
      [5000, 64],
    ] as const) {
      const values = rounded(noise(count, 5, 3), dtype);
      const exact = values.reduce((total, v) => total + v * v, 0);
      const x = bench.place(values, dtype, dtypeBytes[dtype]);
      await bench.run("squareSum", { count, dtype, x, block, out });
      const [sum, nonFinite] = bench.read(out, 2, "f64");
      expect(Math.abs(sum! / exact - 1)).toBeLessThan(1e-12);
      expect(nonFinite).toBe(0);
      values[0] = Number.NaN;
      values[count - 1] = Number.NEGATIVE_INFINITY;
      values[count >> 1] = Number.POSITIVE_INFINITY;
      await bench.run("squareSum", { count, dtype, x: bench.place(values, dtype), block, out });
      expect(bench.read(out, 2, "f64")[1]).toBe(new Set([0, count >> 1, count - 1]).size);
    }
    bench.close();
  });

  it("of values whose squares are beyond fp32 is finite", async () => {
    const bench = new Workbench(isa);
    const out = bench.space(16);
    const x = bench.place(new Array(100).fill(2 ** 100), "bf16");
    await bench.run("squareSum", { count: 100, dtype: "bf16", x, block: 64, out });
    expect(Array.from(bench.read(out, 2, "f64"))).toEqual([100 * 2 ** 200, 0]);
    bench.close();
  });

  it("has the same bits for any number of workers and any alignment", async () => {
    const count = 300_007;
    const values = noise(count, 6);
    let skew = 0;
    await sameForAnyWorkers(isa, async (bench) => {
      const x = bench.place(values, "bf16", skew);
      skew += 6;
      const out = bench.space(16);
      await bench.run("squareSum", { count, dtype: "bf16", x, block: 4096, out });
      return [bench.bytes(out, 16)];
    });
  });
});
