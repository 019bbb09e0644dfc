/** Cross-entropy and the sum of row losses, against plain loops in fp64. */
import { expect, it } from "vitest";
import { dtypeBytes } from "../../src/device/dtype.ts";
import {
  describeKernels,
  epsilonOf,
  expectClose,
  expectSame,
  floatTypes,
  noise,
  rounded,
  sameForAnyWorkers,
  Workbench,
} from "./support.ts";

describeKernels("cross-entropy", (isa) => {
  it.each(floatTypes)("loss and gradient in place in %s, ignored rows and the columns beyond", async (dtype) => {
    const bench = new Workbench(isa);
    for (const [rows, cols] of [
      [1, 1],
      [3, 7],
      [5, 33],
      [4, 1000],
      [1, 50257],
    ] as const) {
      const ld = cols + 5;
      const logits = rounded(noise(rows * ld, 3, 8), dtype);
      const targets = Array.from({ length: rows }, (_, r) => (r === 1 ? -1 : (r * 5 + 3) % cols));
      const gradientScale = 0.125;
      const s = {
        logits: bench.place(logits, dtype, dtypeBytes[dtype]),
        targets: bench.place(targets, "i32"),
        rowLoss: bench.space(rows * 4),
      };
      const loss = new Float64Array(rows);
      const gradient = logits.slice();
      for (let r = 0; r < rows; r++) {
        const row = logits.subarray(r * ld, r * ld + cols);
        const target = targets[r]!;
        const largest = row.reduce((a, b) => Math.max(a, b));
        const total = row.reduce((sum, v) => sum + Math.exp(v - largest), 0);
        if (target >= 0) loss[r] = largest + Math.log(total) - row[target]!;
        for (let c = 0; c < cols; c++) {
          const share = Math.exp(row[c]! - largest) / total - (c === target ? 1 : 0);
          gradient[r * ld + c] = target < 0 ? 0 : share * gradientScale;
        }
      }
      const shape = { rows, cols, ld, dtype, gradientScale };
      await bench.run("crossEntropy", { ...shape, ...s, gradient: false });
      expectSame(bench.read(s.logits, logits.length, dtype), logits);
      expectClose(bench.read(s.rowLoss, rows, "f32"), loss, "f32", 20, 1);
      await bench.run("crossEntropy", { ...shape, ...s, gradient: true });
      expectClose(bench.read(s.rowLoss, rows, "f32"), loss, "f32", 20, 1);
      expectClose(
        bench.read(s.logits, logits.length, dtype),
        gradient,
        dtype,
        dtype === "f32" ? 100 : 1.1,
        epsilonOf.f32,
      );
    }
    bench.close();
  });

  it("survives logits of any size, and turns NaN and inf into NaN", async () => {
    const bench = new Workbench(isa);
    const huge = 3e38;
    const rows = [
      [huge, -huge, 0, 0],
      [Number.NEGATIVE_INFINITY, 1, 1, 1],
      [Number.NaN, 1, 2, 3],
      [Number.POSITIVE_INFINITY, 1, 2, 3],
    ];
    const s = {
      logits: bench.place(rows.flat(), "f32"),
      targets: bench.place([0, 1, 1, 1], "i32"),
      rowLoss: bench.space(16),
    };
    await bench.run("crossEntropy", { rows: 4, cols: 4, ld: 4, dtype: "f32", ...s, gradient: true, gradientScale: 1 });
    const loss = bench.read(s.rowLoss, 4, "f32");
    const gradient = bench.read(s.logits, 16, "f32");
    expect(loss[0]).toBe(0);
    expect(Array.from(gradient.subarray(0, 4))).toEqual([0, 0, 0, 0]);
    expect(loss[1]).toBeCloseTo(Math.log(3), 6);
    expect(gradient[4]).toBe(0);
    expect([loss[2], loss[3], gradient[8], gradient[13]]).toEqual(new Array(4).fill(Number.NaN));
    bench.close();
  });

  it("gives the same bits for any number of workers, and sums row losses in fp64", async () => {
    const [rows, cols] = [130, 700];
    const logits = noise(rows * cols, 4, 5);
    const targets = Array.from({ length: rows }, (_, r) => (r * 31) % cols);
    const [, losses] = await sameForAnyWorkers(isa, async (bench) => {
      const s = {
        logits: bench.place(logits, "bf16"),
        targets: bench.place(targets, "i32"),
        rowLoss: bench.space(4 * rows),
      };
      await bench.run("crossEntropy", {
        rows,
        cols,
        ld: cols,
        dtype: "bf16",
        ...s,
        gradient: true,
        gradientScale: 1 / rows,
      });
      return [bench.bytes(s.logits, 2 * rows * cols), bench.bytes(s.rowLoss, 4 * rows)];
    });
    const bench = new Workbench(isa);
    const values = new Float32Array(losses!.buffer);
    const x = bench.place(values, "f32");
    const dst = bench.place([3], "f32");
    const exact = values.reduce((total, v) => total + v, 0);
    await bench.run("sum", { count: rows, x, factor: 0.5, dst, accumulate: true });
    expect(bench.read(dst, 1, "f32")[0]).toBe(Math.fround(3 + 0.5 * exact));
    await bench.run("sum", { count: rows, x, factor: 0.5, dst, accumulate: false });
    expect(bench.read(dst, 1, "f32")[0]).toBe(Math.fround(0.5 * exact));
    bench.close();
  });
});
