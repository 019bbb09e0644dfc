/** Kernels over rows: layer normalization, embedding, column sums, against plain loops in fp64. */
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

const mean = (x: ArrayLike<number>) => Array.from(x).reduce((a, b) => a + b, 0) / x.length;

function normalize(x: Float64Array, cols: number, epsilon: number) {
  const rows = x.length / cols;
  const means = new Float64Array(rows);
  const rstds = new Float64Array(rows);
  for (let r = 0; r < rows; r++) {
    const row = x.subarray(r * cols, (r + 1) * cols);
    means[r] = mean(row);
    rstds[r] = 1 / Math.sqrt(mean(row.map((v) => (v - means[r]!) ** 2)) + epsilon);
  }
  const xhat = x.map((v, i) => (v - means[Math.floor(i / cols)]!) * rstds[Math.floor(i / cols)]!);
  return { means, rstds, xhat };
}

function normalizeGradient(dy: Float64Array, gamma: Float64Array, cols: number, n: ReturnType<typeof normalize>) {
  const dx = new Float64Array(dy.length);
  for (let r = 0; r * cols < dy.length; r++) {
    const at = (c: number) => r * cols + c;
    const g = Array.from(gamma, (v, c) => v * dy[at(c)]!);
    const meanG = mean(g);
    const meanGx = mean(g.map((v, c) => v * n.xhat[at(c)]!));
    for (let c = 0; c < cols; c++) dx[at(c)] = n.rstds[r]! * (g[c]! - meanG - n.xhat[at(c)]! * meanGx);
  }
  return dx;
}

function columnSums(x: ArrayLike<number>, rows: number, cols: number, ld = cols): Float64Array {
  const out = new Float64Array(cols);
  for (let r = 0; r < rows; r++) for (let c = 0; c < cols; c++) out[c]! += x[r * ld + c]!;
  return out;
}

/** Half spacings allowed to a formula with sums: many fp32 roundings in f32, one to the dtype otherwise. */
const sumUnits = (dtype: FloatType) => (dtype === "f32" ? 60 : 1.1);

describeKernels("layer normalization", (isa) => {
  it.each(floatTypes)("forward and backward in %s", async (dtype) => {
    const bench = new Workbench(isa);
    const skew = dtypeBytes[dtype];
    for (const [rows, cols] of shapes) {
      const count = rows * cols;
      const x = rounded(
        noise(count, 1, 2).map((v) => v + 0.5),
        dtype,
      );
      const dy = rounded(noise(count, 2), dtype);
      const before = rounded(noise(count, 3), dtype);
      const gamma = rounded(
        noise(cols, 4).map((v) => v + 1),
        dtype,
      );
      const beta = rounded(noise(cols, 5), dtype);
      const epsilon = 1e-5;
      const wanted = normalize(x, cols, epsilon);
      const s = {
        x: bench.place(x, dtype, skew),
        gamma: bench.place(gamma, dtype, skew),
        beta: bench.place(beta, dtype),
        y: bench.space(count * 4),
        mean: bench.space(rows * 4),
        rstd: bench.space(rows * 4),
        dy: bench.place(dy, dtype),
        dx: bench.place(before, dtype, skew),
        dgamma: bench.space(cols * 4),
        dbeta: bench.space(cols * 4),
      };
      await bench.run("layerNorm", { rows, cols, dtype, epsilon, ...s });
      expectClose(bench.read(s.mean, rows, "f32"), wanted.means, "f32", 20, 1);
      expectClose(bench.read(s.rstd, rows, "f32"), wanted.rstds, "f32", 40);
      const y = wanted.xhat.map((v, i) => v * gamma[i % cols]! + beta[i % cols]!);
      expectClose(bench.read(s.y, count, dtype), y, dtype, sumUnits(dtype), 1);

      const flags = { rows, cols, dtype, accumulateInput: true, accumulateParameters: false };
      await bench.run("layerNormBackward", { ...flags, ...s });
      const dx = normalizeGradient(dy, gamma, cols, wanted).map((v, i) => v + before[i]!);
      // A row of one value has no spread: 1 / sqrt(epsilon) magnifies what rounding left of the difference.
      expectClose(bench.read(s.dx, count, dtype), dx, dtype, sumUnits(dtype), Math.max(1, ...wanted.rstds) * 2);
      const dgamma = columnSums(
        dy.map((v, i) => v * wanted.xhat[i]!),
        rows,
        cols,
      );
      const dbeta = columnSums(dy, rows, cols);
      expectClose(bench.read(s.dgamma, cols, dtype), dgamma, dtype, sumUnits(dtype), 4);
      expectClose(bench.read(s.dbeta, cols, dtype), dbeta, dtype, sumUnits(dtype), 4);

      await bench.run("layerNormBackward", { ...flags, ...s, accumulateInput: false, accumulateParameters: true });
      const twice = rounded(dbeta, dtype).map((v, i) => v + dbeta[i]!);
      expectClose(bench.read(s.dbeta, cols, dtype), twice, dtype, sumUnits(dtype) * 2, 4);
      await bench.run("layerNormBackward", { ...flags, ...s, accumulateInput: false, dgamma: null, dbeta: null });
      const alone = dx.map((v, i) => v - before[i]!);
      expectClose(bench.read(s.dx, count, dtype), alone, dtype, sumUnits(dtype), Math.max(1, ...wanted.rstds) * 2);
    }
    bench.close();
  });

  it("keeps its precision for rows far from zero, and passes NaN on", async () => {
    const bench = new Workbench(isa);
    const x = rounded(
      noise(64, 8).map((v) => v + 10_000),
      "f32",
    );
    x[63] = Number.NaN;
    const ones = new Array(32).fill(1);
    const s = {
      x: bench.place(x, "f32"),
      gamma: bench.place(ones, "f32"),
      beta: bench.place(
        ones.map(() => 0),
        "f32",
      ),
      y: bench.space(256),
      mean: bench.space(8),
      rstd: bench.space(8),
    };
    await bench.run("layerNorm", { rows: 2, cols: 32, dtype: "f32", epsilon: 1e-5, ...s });
    const y = bench.read(s.y, 64, "f32");
    const { xhat } = normalize(x.subarray(0, 32), 32, 1e-5);
    for (let i = 0; i < 32; i++) expect(Math.abs(y[i]! - xhat[i]!)).toBeLessThan(2e-3);
    expect(y.subarray(32).every(Number.isNaN)).toBe(true);
    bench.close();
  });

  it("gives the same bits for any number of workers", async () => {
    const [rows, cols] = [517, 96];
    const count = rows * cols;
    // In fp32, where another order of additions shows.
    await sameForAnyWorkers(isa, async (bench) => {
      const s = {
        x: bench.place(noise(count, 1), "f32"),
        gamma: bench.place(noise(cols, 2), "f32"),
        beta: bench.place(noise(cols, 3), "f32"),
        y: bench.space(4 * count),
        mean: bench.space(4 * rows),
        rstd: bench.space(4 * rows),
        dy: bench.place(noise(count, 4), "f32"),
        dx: bench.space(4 * count),
        dgamma: bench.space(4 * cols),
        dbeta: bench.space(4 * cols),
      };
      const shape = { rows, cols, dtype: "f32" } as const;
      await bench.run("layerNorm", { ...shape, epsilon: 1e-5, ...s });
      await bench.run("layerNormBackward", { ...shape, accumulateInput: false, accumulateParameters: false, ...s });
      return [
        bench.bytes(s.y, 4 * count),
        bench.bytes(s.dx, 4 * count),
        bench.bytes(s.dgamma, 4 * cols),
        bench.bytes(s.dbeta, 4 * cols),
      ];
    });
  });
});

describeKernels("column sums", (isa) => {
  it.each(floatTypes)("of rows with a leading dimension, overwriting or adding, in %s", async (dtype) => {
    const bench = new Workbench(isa);
    for (const [rows, cols] of shapes) {
      const ld = cols + 3;
      const x = rounded(noise(rows * ld, 6), dtype);
      const s = { x: bench.place(x, dtype, dtypeBytes[dtype]), out: bench.space(cols * 4, dtypeBytes[dtype]) };
      const wanted = columnSums(x, rows, cols, ld);
      await bench.run("columnSum", { rows, cols, ld, dtype, ...s, accumulate: false });
      expectClose(bench.read(s.out, cols, dtype), wanted, dtype, sumUnits(dtype), 2);
      await bench.run("columnSum", { rows, cols, ld, dtype, ...s, accumulate: true });
      const twice = rounded(wanted, dtype).map((v, i) => v + wanted[i]!);
      expectClose(bench.read(s.out, cols, dtype), twice, dtype, sumUnits(dtype) * 2, 2);
    }
    bench.close();
  });

  it("gives the same bits for any number of workers", async () => {
    const [rows, cols] = [1000, 301];
    const x = noise(rows * cols, 7);
    await sameForAnyWorkers(isa, async (bench) => {
      const s = { x: bench.place(x, "f32"), out: bench.space(cols * 4) };
      await bench.run("columnSum", { rows, cols, ld: cols, dtype: "f32", ...s, accumulate: false });
      return [bench.bytes(s.out, cols * 4)];
    });
  });
});

describeKernels("embedding", (isa) => {
  const vocabulary = 37;
  const idsOf = (rows: number) => Array.from({ length: rows }, (_, r) => [0, 36, 5, 5, 12][(r * 7 + (r >> 2)) % 5]!);

  it.each(floatTypes)("rows by id, and their gradients, in %s", async (dtype) => {
    const bench = new Workbench(isa);
    for (const [rows, cols] of shapes) {
      const ids = idsOf(rows);
      const table = rounded(noise(vocabulary * cols, 1), dtype);
      const dy = rounded(noise(rows * cols, 2), dtype);
      const s = {
        ids: bench.place(ids, "i32"),
        table: bench.place(table, dtype, dtypeBytes[dtype]),
        out: bench.space(rows * cols * 4),
        dy: bench.place(dy, dtype),
        dtable: bench.place(table, dtype),
      };
      const shape = { rows, cols, vocabulary, dtype };
      const picked = dy.map((_, i) => table[ids[Math.floor(i / cols)]! * cols + (i % cols)]!);
      await bench.run("embedding", { ...shape, ...s, accumulate: false });
      expectSame(bench.read(s.out, rows * cols, dtype), picked);
      await bench.run("embedding", { ...shape, ...s, accumulate: true });
      expectSame(
        bench.read(s.out, rows * cols, dtype),
        rounded(
          picked.map((v) => 2 * v),
          dtype,
        ),
      );

      const gradient = new Float64Array(vocabulary * cols);
      for (let i = 0; i < dy.length; i++) gradient[ids[Math.floor(i / cols)]! * cols + (i % cols)]! += dy[i]!;
      await bench.run("embeddingBackward", { ...shape, ...s, accumulate: true });
      expectClose(
        bench.read(s.dtable, table.length, dtype),
        gradient.map((v, i) => v + table[i]!),
        dtype,
        sumUnits(dtype),
        2,
      );
      await bench.run("embeddingBackward", { ...shape, ...s, accumulate: false });
      expectClose(bench.read(s.dtable, table.length, dtype), gradient, dtype, sumUnits(dtype), 2);
    }
    bench.close();
  });

  it("adds a token's rows in row order whatever the number of workers", async () => {
    const [rows, cols] = [4000, 33];
    const dy = noise(rows * cols, 11);
    const ids = idsOf(rows);
    const [bytes] = await sameForAnyWorkers(isa, async (bench) => {
      const s = {
        ids: bench.place(ids, "i32"),
        dy: bench.place(dy, "f32"),
        dtable: bench.space(vocabulary * cols * 4),
      };
      await bench.run("embeddingBackward", { rows, cols, vocabulary, dtype: "f32", ...s, accumulate: false });
      return [bench.bytes(s.dtable, vocabulary * cols * 4)];
    });
    let expected = 0;
    for (let r = 0; r < rows; r++)
      if (ids[r] === 36) expected = Math.fround(expected + Math.fround(dy[r * cols + 32]!));
    expect(new Float32Array(bytes!.buffer)[36 * cols + 32]).toBe(expected);
  });
});
