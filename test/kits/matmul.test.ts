/** The matrix product against fp64: odd sizes, every transposition and dtype, accumulation, the fused epilogue, worker counts. */
import { expect, it } from "vitest";
import { dtypeBytes } from "../../src/device/dtype.ts";
import type { OpArgs } from "../../src/device/ops.ts";
import {
  describeKernels,
  expectClose,
  type FloatType,
  floatTypes,
  native,
  noise,
  rounded,
  sameForAnyWorkers,
  toBytes,
  Workbench,
} from "./support.ts";

interface Shape {
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

/** Below, at and beyond a tile of every instruction set; more depth than one block; no depth at all. */
const shapes: readonly Shape[] = [
  { m: 1, n: 1, k: 1 },
  { m: 5, n: 7, k: 3 },
  { m: 12, n: 32, k: 64 },
  { m: 13, n: 33, k: 65 },
  { m: 3, n: 130, k: 31 },
  { m: 14, n: 9, k: 1051 },
  { m: 9, n: 40, k: 0 },
  { m: 1, n: 70, k: 1051 },
];

/** A padded operand: rows x depth values at the strides of a row-major matrix, or of its transpose. */
class Operand {
  readonly values: Float64Array;
  readonly rowStride: number;
  readonly depthStride: number;
  private readonly bytes: Uint8Array;
  private readonly elementBytes: number;

  constructor(rows: number, depth: number, dtype: FloatType, seed: number, transposed: boolean) {
    this.values = rounded(noise(rows * depth, seed), dtype);
    this.rowStride = transposed ? 1 : depth + 3;
    this.depthStride = transposed ? rows + 1 : 1;
    const laidOut = new Float64Array((rows + 1) * (depth + 3)).fill(Number.NaN);
    for (let r = 0; r < rows; r++)
      for (let d = 0; d < depth; d++) laidOut[r * this.rowStride + d * this.depthStride] = this.values[r * depth + d]!;
    this.bytes = toBytes(laidOut, dtype);
    this.elementBytes = dtypeBytes[dtype];
  }

  /** Off the vector boundary by one element. */
  place(bench: Workbench) {
    const span = bench.space(this.bytes.length, this.elementBytes);
    native!.writeRegion(span.region, span.offset, this.bytes);
    return span;
  }
}

const made = new Map<string, Operand>();
/** Operands are the same for every instruction set: made once. */
function operand(rows: number, depth: number, dtype: FloatType, seed: number, transposed: boolean): Operand {
  const key = [rows, depth, dtype, seed, transposed].join();
  const known = made.get(key) ?? new Operand(rows, depth, dtype, seed, transposed);
  made.set(key, known);
  return known;
}

function product({ m, n, k }: Shape, a: Float64Array, b: Float64Array): Float64Array {
  const c = new Float64Array(m * n);
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let d = 0; d < k; d++) sum += a[i * k + d]! * b[j * k + d]!;
      c[i * n + j] = sum;
    }
  return c;
}

const plain = { accumulate: false, bias: null, gelu: false, preActivation: null } as const;

/** fp32 sums of k products, and one rounding to the dtype. */
const expectProduct = (found: Float64Array, wanted: Float64Array, dtype: FloatType, k: number) =>
  expectClose(found, wanted, dtype, dtype === "f32" ? 24 : 1.1, Math.sqrt(k + 1) * (dtype === "f32" ? 1 : 0.01));

function gelu(x: number): number {
  return x / (1 + Math.exp(-2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
}

const layouts = [false, true].flatMap((at) => [false, true].map((bt) => ({ at, bt })));
const outputs = floatTypes.flatMap((dtype): { dtype: FloatType; cType: FloatType }[] =>
  dtype === "f32"
    ? [{ dtype, cType: dtype }]
    : [
        { dtype, cType: dtype },
        { dtype, cType: "f32" },
      ],
);

/** The arguments of a product of two placed operands. */
function operandArgs(bench: Workbench, shape: Shape, dtype: FloatType, a: Operand, b: Operand) {
  return {
    ...shape,
    dtype,
    a: a.place(bench),
    aRowStride: a.rowStride,
    aDepthStride: a.depthStride,
    b: b.place(bench),
    bRowStride: b.rowStride,
    bDepthStride: b.depthStride,
  };
}

describeKernels("matrix product", (isa) => {
  it.each(outputs)("$dtype to $cType: every layout and size, stored and accumulated", async ({ dtype, cType }) => {
    for (const shape of shapes) {
      const { m, n, k } = shape;
      let wanted: Float64Array | undefined;
      for (const { at, bt } of layouts) {
        const a = operand(m, k, dtype, m + k, at);
        const b = operand(n, k, dtype, n + 7, bt);
        wanted ??= product(shape, a.values, b.values);
        const bench = new Workbench(isa);
        const ldc = n + 2;
        const before = rounded(noise(m * ldc, 5), cType);
        const c = bench.place(before, cType);
        const args = { ...plain, ...operandArgs(bench, shape, dtype, a, b), c, ldc, cType, biasType: cType };
        await bench.run("matmul", { ...args, accumulate: true });
        const added = bench.read(c, m * ldc, cType);
        await bench.run("matmul", args);
        const stored = bench.read(c, m * ldc, cType);
        bench.close();
        const inside = (all: Float64Array) => all.filter((_, i) => i % ldc < n);
        const beyond = (all: Float64Array) => all.filter((_, i) => i % ldc >= n);
        expectProduct(inside(stored), wanted, cType, k);
        const sum = inside(before).map((x, i) => x + wanted![i]!);
        expectProduct(inside(added), sum, cType, k);
        expect(beyond(stored)).toEqual(beyond(before));
      }
    }
  });

  it.each(outputs)("$dtype to $cType: bias, activation and the value before it", async ({ dtype, cType }) => {
    for (const shape of [
      { m: 14, n: 35, k: 40 },
      { m: 5, n: 64, k: 1100 },
    ] satisfies Shape[])
      for (const biasType of new Set<FloatType>([cType, "f32"])) {
        const a = operand(shape.m, shape.k, dtype, 1, false);
        const b = operand(shape.n, shape.k, dtype, 2, true);
        const bias = rounded(noise(shape.n, 3, 2), biasType);
        const bench = new Workbench(isa);
        const count = shape.m * shape.n;
        const [c, preActivation] = [bench.space(count * 4), bench.space(count * 4)];
        const common = { ...plain, ...operandArgs(bench, shape, dtype, a, b), c, ldc: shape.n, cType, biasType };
        await bench.run("matmul", { ...common, bias: bench.place(bias, biasType), gelu: true, preActivation });
        const before = product(shape, a.values, b.values).map((x, i) => x + bias[i % shape.n]!);
        expectProduct(bench.read(preActivation, count, cType), before, cType, shape.k);
        expectProduct(bench.read(c, count, cType), before.map(gelu), cType, shape.k);
        bench.close();
      }
  });

  it.each(floatTypes)("%s: the number of workers changes no bit", async (dtype) => {
    for (const shape of [
      { m: 150, n: 90, k: 70 },
      { m: 2, n: 260, k: 1060 },
      { m: 400, n: 3, k: 450 },
    ] satisfies Shape[])
      for (const cType of new Set<FloatType>([dtype, "f32"]))
        await sameForAnyWorkers(isa, async (bench) => {
          const a = operand(shape.m, shape.k, dtype, 8, true);
          const b = operand(shape.n, shape.k, dtype, 9, false);
          const c = bench.space(shape.m * shape.n * 4);
          await bench.run("matmul", {
            ...plain,
            ...operandArgs(bench, shape, dtype, a, b),
            c,
            ldc: shape.n,
            cType,
            biasType: cType,
          });
          return [bench.bytes(c, shape.m * shape.n * dtypeBytes[cType])];
        });
  });

  it.each(outputs)("$dtype to $cType: a row alone has the bits that it has among others", async ({ dtype, cType }) => {
    for (const { n, k } of [
      { n: 75, k: 1500 },
      { n: 1100, k: 33 },
      { n: 300, k: 2100 },
    ])
      for (const { at, bt } of layouts) {
        const m = 13;
        const bench = new Workbench(isa, 2);
        const args = operandArgs(bench, { m, n, k }, dtype, operand(m, k, dtype, 1, at), operand(n, k, dtype, 2, bt));
        const bias = bench.place(rounded(noise(n, 3, 2), cType), cType);
        const before = rounded(noise(m * n, 5), cType);
        for (const how of [plain, { ...plain, accumulate: true }, { ...plain, bias, gelu: true }]) {
          const whole = bench.place(before, cType);
          await bench.run("matmul", { ...args, ...how, c: whole, ldc: n, cType, biasType: cType });
          const row = 7;
          const part = bench.place(before.subarray(row * n, row * n + n), cType);
          const a = { ...args.a, offset: args.a.offset + row * args.aRowStride * dtypeBytes[dtype] };
          await bench.run("matmul", { ...args, ...how, a, m: 1, c: part, ldc: n, cType, biasType: cType });
          const bytes = n * dtypeBytes[cType];
          const wanted = bench.bytes({ ...whole, offset: whole.offset + row * bytes }, bytes);
          expect(Buffer.compare(bench.bytes(part, bytes), wanted), `${n} x ${k} ${JSON.stringify(how)}`).toBe(0);
        }
        bench.close();
      }
  });

  it("a row's bits do not depend on which other rows and columns are computed", async () => {
    const shape = { m: 61, n: 75, k: 1500 };
    const bench = new Workbench(isa);
    const a = operand(shape.m, shape.k, "bf16", 1, false);
    const b = operand(shape.n, shape.k, "bf16", 2, false);
    const whole = bench.space(shape.m * shape.n * 4);
    const part = bench.space(shape.m * shape.n * 4);
    const args: OpArgs<"matmul"> = {
      ...plain,
      ...operandArgs(bench, shape, "bf16", a, b),
      c: whole,
      ldc: shape.n,
      cType: "f32",
      biasType: "f32",
    };
    await bench.run("matmul", args);
    const skip = { rows: 37, cols: 20 };
    const shifted = (span: typeof whole, elements: number) => ({ ...span, offset: span.offset + elements });
    await bench.run("matmul", {
      ...args,
      m: shape.m - skip.rows,
      n: shape.n - skip.cols,
      a: shifted(args.a, 2 * skip.rows * a.rowStride),
      b: shifted(args.b, 2 * skip.cols * b.rowStride),
      c: shifted(part, 4 * (skip.rows * shape.n + skip.cols)),
    });
    const [all, some] = [whole, part].map((span) => bench.read(span, shape.m * shape.n, "f32"));
    for (let i = skip.rows; i < shape.m; i++)
      for (let j = skip.cols; j < shape.n; j++) expect(some![i * shape.n + j]).toBe(all![i * shape.n + j]);
    bench.close();
  });

  it.each(floatTypes)("%s: what is not finite reaches its own row or column and no other", async (dtype) => {
    const shape = { m: 30, n: 40, k: 50 };
    const a = rounded(noise(shape.m * shape.k, 1), dtype);
    const b = rounded(noise(shape.n * shape.k, 2), dtype).map(Math.abs);
    a[7 * shape.k + 3] = Number.NaN;
    a[9 * shape.k + 4] = Number.POSITIVE_INFINITY;
    b[11 * shape.k + 5] = Number.NaN;
    const bench = new Workbench(isa);
    const c = bench.space(shape.m * shape.n * 4);
    const [aSpan, bSpan] = [bench.place(a, dtype), bench.place(b, dtype)];
    const strides = { aRowStride: shape.k, aDepthStride: 1, bRowStride: shape.k, bDepthStride: 1 };
    await bench.run("matmul", {
      ...plain,
      ...shape,
      ...strides,
      dtype,
      a: aSpan,
      b: bSpan,
      c,
      ldc: shape.n,
      cType: dtype,
      biasType: dtype,
    });
    const found = bench.read(c, shape.m * shape.n, dtype);
    for (let i = 0; i < shape.m; i++)
      for (let j = 0; j < shape.n; j++) {
        const value = found[i * shape.n + j]!;
        if (i === 7 || j === 11) expect(value).toBeNaN();
        else if (i === 9) expect(value).toBe(Number.POSITIVE_INFINITY);
        else expect(Number.isFinite(value)).toBe(true);
      }
    bench.close();
  });

  it("an accumulating product of many steps equals one long product to fp32 rounding", async () => {
    const [steps, shape] = [5, { m: 20, n: 36, k: 90 }];
    const bench = new Workbench(isa);
    const c = bench.place(new Float64Array(shape.m * shape.n), "f32");
    const wanted = new Float64Array(shape.m * shape.n);
    for (let step = 0; step < steps; step++) {
      const a = operand(shape.m, shape.k, "bf16", step, true);
      const b = operand(shape.n, shape.k, "bf16", step + 50, true);
      const common = {
        ...plain,
        ...operandArgs(bench, shape, "bf16", a, b),
        c,
        ldc: shape.n,
        biasType: "f32" as const,
      };
      await bench.run("matmul", { ...common, cType: "f32", accumulate: true });
      product(shape, a.values, b.values).forEach((x, i) => {
        wanted[i]! += x;
      });
    }
    expectProduct(bench.read(c, wanted.length, "f32"), wanted, "f32", steps * shape.k);
    bench.close();
  });
});
