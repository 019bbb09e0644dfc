/** The optimizers' rules and the gradient norm, against plain loops in fp64. */
import { expect, it } from "vitest";
import { type DType, dtypeBytes } from "../../src/device/dtype.ts";
import type { Span } from "../../src/device/ops.ts";
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

const learningRate = 1e-2;
const weightDecay = 0.1;

/** An element as a rule keeps it: its weight and up to two states. */
interface Element {
  w: number;
  m: number;
  v: number;
}

interface Memory {
  readonly master: Span;
  readonly firstMoment: Span;
  readonly secondMoment: Span;
  readonly gradient: Span;
  readonly parameter: Span | null;
}

/** What the ops of all rules share. */
interface Shared {
  readonly count: number;
  readonly gradientType: DType;
  readonly parameterType: DType;
  readonly gradientScale: number;
}

interface Rule {
  readonly name: string;
  readonly states: readonly ("firstMoment" | "secondMoment")[];
  run(bench: Workbench, shared: Shared, memory: Memory, step: number): Promise<void>;
  /** The next value of an element in fp64, of its scaled gradient. */
  reference(element: Element, gradient: number, step: number): Element;
}

const rates = { learningRate, weightDecay };

function adamRule(decoupled: boolean): Rule {
  const beta1 = 0.9;
  const beta2 = 0.999;
  const epsilon = 1e-8;
  return {
    name: decoupled ? "AdamW" : "Adam",
    states: ["firstMoment", "secondMoment"],
    run: (bench, shared, memory, step) =>
      bench.run("adam", {
        ...{ ...shared, ...memory, ...rates, beta1, beta2, epsilon, decoupled },
        ...{ correction1: 1 - beta1 ** step, correction2: 1 - beta2 ** step },
      }),
    reference({ w, m, v }, gradient, step) {
      const g = decoupled ? gradient : gradient + weightDecay * w;
      const kept = decoupled ? w * (1 - learningRate * weightDecay) : w;
      const first = beta1 * m + (1 - beta1) * g;
      const second = beta2 * v + (1 - beta2) * g * g;
      const denominator = Math.sqrt(second / (1 - beta2 ** step)) + epsilon;
      return { w: kept - ((learningRate / (1 - beta1 ** step)) * first) / denominator, m: first, v: second };
    },
  };
}

const lionRule: Rule = {
  name: "Lion",
  states: ["firstMoment"],
  run: (bench, shared, memory) => bench.run("lion", { ...shared, ...memory, ...rates, beta1: 0.9, beta2: 0.99 }),
  reference: ({ w, m, v }, g) => ({
    w: w * (1 - learningRate * weightDecay) - learningRate * Math.sign(0.9 * m + 0.1 * g),
    m: 0.99 * m + 0.01 * g,
    v,
  }),
};

function sgdRule(momentum: number, dampening: number, nesterov: boolean): Rule {
  return {
    name: `SGD ${momentum} ${dampening} ${nesterov}`,
    states: momentum > 0 ? ["firstMoment"] : [],
    run: (bench, shared, memory, step) =>
      bench.run("sgd", {
        ...{ ...shared, ...memory, ...rates, momentum, nesterov, gradientShare: step === 1 ? 1 : 1 - dampening },
        firstMoment: momentum > 0 ? memory.firstMoment : null,
      }),
    reference({ w, m, v }, gradient, step) {
      const g = gradient + weightDecay * w;
      if (momentum === 0) return { w: w - learningRate * g, m, v };
      const moment = step === 1 ? g : momentum * m + (1 - dampening) * g;
      return { w: w - learningRate * (nesterov ? g + momentum * moment : moment), m: moment, v };
    },
  };
}

function adagradRule(initialSum: number): Rule {
  const epsilon = 1e-10;
  return {
    name: `Adagrad from ${initialSum}`,
    states: ["secondMoment"],
    run: (bench, shared, memory) => bench.run("adagrad", { ...shared, ...memory, ...rates, epsilon, initialSum }),
    reference({ w, m, v }, gradient) {
      const g = gradient + weightDecay * w;
      const sum = v + g * g;
      return { w: w - (learningRate * g) / (Math.sqrt(initialSum + sum) + epsilon), m, v: sum };
    },
  };
}

const rules: readonly Rule[] = [
  adamRule(true),
  adamRule(false),
  lionRule,
  sgdRule(0, 0, false),
  sgdRule(0.9, 0, false),
  sgdRule(0.8, 0.25, false),
  sgdRule(0.9, 0, true),
  adagradRule(0),
  adagradRule(0.5),
];

/** 20 updates, and the same in fp64. Odd sizes and addresses that no vector likes. */
async function expectTrajectory(isa: string, rule: Rule, gradientType: FloatType, parameterType: FloatType) {
  const bench = new Workbench(isa);
  const count = 147;
  const skew = 4;
  const start = rounded(noise(count, 1), "f32");
  const elements: Element[] = Array.from(start, (w) => ({ w, m: 0, v: 0 }));
  const parameter = bench.space(count * 4, dtypeBytes[parameterType]);
  const memory = {
    master: bench.place(start, "f32", skew),
    firstMoment: bench.place(new Float64Array(count), "f32"),
    secondMoment: bench.place(new Float64Array(count), "f32", skew),
  };
  const gradientScale = 0.25;
  const shared = { count, gradientType, parameterType, gradientScale };
  for (let step = 1; step <= 20; step++) {
    const values = rounded(noise(count, 100 + step, 0.5 ** (step % 7)), gradientType);
    const gradient = bench.place(values, gradientType, dtypeBytes[gradientType]);
    await rule.run(bench, shared, { ...memory, gradient, parameter }, step);
    for (const [i, e] of elements.entries()) elements[i] = rule.reference(e, values[i]! * gradientScale, step);
  }
  const found = (span: Span) => bench.read(span, count, "f32");
  expectClose(
    found(memory.master),
    elements.map((e) => e.w),
    "f32",
    20,
    1,
  );
  const moments = elements.map((e) => e.m);
  expectClose(found(memory.firstMoment), moments, "f32", 20, 0.1 * Math.max(...moments.map(Math.abs)));
  // Relative, without a floor: 1 - beta2 rounded as a float would be off by 1e-5.
  expectClose(
    found(memory.secondMoment),
    elements.map((e) => e.v),
    "f32",
    60,
  );
  expectSame(bench.read(parameter, count, parameterType), rounded(found(memory.master), parameterType));
  bench.close();
}

describeKernels("optimizer rules", (isa) => {
  for (const rule of rules) {
    it.each(floatTypes)(`${rule.name} follows fp64 over 20 updates, gradients in %s`, async (gradientType) => {
      for (const parameterType of ["bf16", "f16"] as const)
        await expectTrajectory(isa, rule, gradientType, parameterType);
    });

    it(`${rule.name} leaves padding exactly zero and needs no 16-bit copy`, async () => {
      const bench = new Workbench(isa);
      const place = () => bench.place(new Array(19).fill(0), "f32");
      const states = { firstMoment: place(), secondMoment: place() };
      const memory = { master: place(), ...states, gradient: place(), parameter: null };
      const shared = { count: 19, gradientType: "f32", parameterType: "f32", gradientScale: 0.5 } as const;
      for (const step of [1, 2]) await rule.run(bench, shared, memory, step);
      for (const span of [memory.master, states.firstMoment, states.secondMoment])
        expect(Buffer.compare(bench.bytes(span, 76), new Uint8Array(76))).toBe(0);
      bench.close();
    });

    it(`${rule.name} shows a gradient that is not a number in the weight`, async () => {
      const bench = new Workbench(isa);
      const place = (value: number) => bench.place(new Array(3).fill(value), "f32");
      const states = { firstMoment: place(0), secondMoment: place(0) };
      const memory = { master: place(1), ...states, gradient: place(Number.NaN), parameter: null };
      await rule.run(bench, { count: 3, gradientType: "f32", parameterType: "f32", gradientScale: 1 }, memory, 1);
      expectSame(bench.read(memory.master, 3, "f32"), [Number.NaN, Number.NaN, Number.NaN]);
      bench.close();
    });

    it(`${rule.name} gives the same bits for any number of workers and writes its own states alone`, async () => {
      const count = 100_001;
      await sameForAnyWorkers(isa, async (bench) => {
        const states = {
          firstMoment: bench.place(noise(count, 2), "f32"),
          secondMoment: bench.place(noise(count, 3).map(Math.abs), "f32"),
        };
        const before = Object.entries(states).map(([name, span]) => [name, bench.bytes(span, 4 * count)] as const);
        const memory = {
          master: bench.place(noise(count, 1), "f32"),
          ...states,
          gradient: bench.place(noise(count, 4), "bf16"),
          parameter: bench.space(2 * count),
        };
        const shared = { count, gradientType: "bf16", parameterType: "bf16", gradientScale: 0.5 } as const;
        await rule.run(bench, shared, memory, 3);
        for (const [name, bytes] of before) {
          const after = bench.bytes(states[name as keyof typeof states], 4 * count);
          const isOwn = rule.states.includes(name as keyof typeof states);
          expect(Buffer.compare(after, bytes) !== 0, name).toBe(isOwn);
        }
        const floats = [memory.master, ...rule.states.map((s) => states[s])].map((s) => bench.bytes(s, 4 * count));
        return [...floats, bench.bytes(memory.parameter, 2 * count)];
      });
    });
  }

  it("Adam with epsilon 0 leaves padding exactly zero", async () => {
    const bench = new Workbench(isa);
    const place = () => bench.place(new Array(19).fill(0), "f32");
    const memory = { master: place(), firstMoment: place(), secondMoment: place(), gradient: place(), parameter: null };
    await bench.run("adam", {
      ...{ count: 19, ...memory, ...rates, gradientType: "f32", parameterType: "f32", gradientScale: 1 },
      ...{ beta1: 0.9, beta2: 0.999, epsilon: 0, decoupled: true, correction1: 0.1, correction2: 0.001 },
    });
    expect(Buffer.compare(bench.bytes(memory.master, 76), new Uint8Array(76))).toBe(0);
    bench.close();
  });

  it("Lion does not move where the moment and the gradient cancel", async () => {
    const bench = new Workbench(isa);
    const memory = {
      master: bench.place([1, 1, 1], "f32"),
      firstMoment: bench.place([0.5, 0, 0], "f32"),
      gradient: bench.place([-0.5, 0, -0.25], "f32"),
      parameter: null,
    };
    const shared = { count: 3, gradientType: "f32", parameterType: "f32", gradientScale: 1, weightDecay: 0 } as const;
    await bench.run("lion", { ...shared, ...memory, learningRate: 0.25, beta1: 0.5, beta2: 0.75 });
    expectSame(bench.read(memory.master, 3, "f32"), [1, 1, 1.25]);
    expectSame(bench.read(memory.firstMoment, 3, "f32"), [0.25, 0, -0.0625]);
    bench.close();
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
      await bench.run("squareSum", { count, dtype, x, block, out, accumulate: false });
      const [sum, nonFinite] = bench.read(out, 2, "f64");
      expect(Math.abs(sum! / exact - 1)).toBeLessThan(1e-12);
      expect(nonFinite).toBe(0);
      values[0] = Number.NaN;
      values[count - 1] = Number.NEGATIVE_INFINITY;
      values[count >> 1] = Number.POSITIVE_INFINITY;
      await bench.run("squareSum", { count, dtype, x: bench.place(values, dtype), block, out, accumulate: false });
      expect(bench.read(out, 2, "f64")[1]).toBe(new Set([0, count >> 1, count - 1]).size);
    }
    bench.close();
  });

  it("of values whose squares are beyond fp32 is finite", async () => {
    const bench = new Workbench(isa);
    const out = bench.space(16);
    const x = bench.place(new Array(100).fill(2 ** 100), "bf16");
    await bench.run("squareSum", { count: 100, dtype: "bf16", x, block: 64, out, accumulate: false });
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
      await bench.run("squareSum", { count, dtype: "bf16", x, block: 4096, out, accumulate: false });
      return [bench.bytes(out, 16)];
    });
  });
});
