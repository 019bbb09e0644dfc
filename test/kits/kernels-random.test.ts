/** Random kernels: the published vectors of Philox, dropout and initial values against the reference generator. */
import { describe, expect, it } from "vitest";
import { normalsOf, philox4x32, wordsOf } from "./philox-reference.ts";
import { describeKernels, expectClose, floatTypes, noise, rounded, sameForAnyWorkers, Workbench } from "./support.ts";

const hex = (words: readonly number[]) => words.map((w) => w.toString(16).padStart(8, "0")).join(" ");

describe("the reference generator", () => {
  it("gives Random123's known answers", () => {
    const all = 0xffffffff;
    expect(hex(philox4x32([0, 0, 0, 0], [0, 0]))).toBe("6627e8d5 e169c58d bc57ac4c 9b00dbd8");
    expect(hex(philox4x32([all, all, all, all], [all, all]))).toBe("408f276d 41c83b0e a20bc7c6 6d5451fd");
    const pi = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344];
    expect(hex(philox4x32(pi, [0xa4093822, 0x299f31d0]))).toBe("d16cfe09 94fdcceb 5001e420 24126ea1");
  });
});

/** (key, first element): every word position, and counters and keys beyond 32 bits. */
const places = [
  [0, 0],
  [1, 1],
  [77, 2],
  [2 ** 40 + 5, 3],
  [2 ** 53 - 1, 2 ** 45 + 7],
  [9, 2 ** 34 - 6],
] as const;

describeKernels("random kernels", (isa) => {
  it("dropout keeps exactly the elements whose word is at or above the threshold", async () => {
    const bench = new Workbench(isa);
    const count = 301;
    const x = noise(count, 5).map((v) => v + 2);
    const src = bench.place(x, "f32", 4);
    const out = bench.space(count * 4);
    for (const [key, firstElement] of places) {
      const words = wordsOf(key, firstElement, count);
      for (const probability of [0, 0.1, 0.5, 0.9]) {
        await bench.run("dropout", { count, dtype: "f32", x: src, out, probability, key, firstElement });
        const threshold = Math.fround(probability) * 2 ** 32;
        const scale = Math.fround(1 / Math.fround(1 - Math.fround(probability)));
        const wanted = x.map((v, i) => (words[i]! >= Math.floor(threshold) ? Math.fround(v) * scale : 0));
        expectClose(bench.read(out, count, "f32"), wanted, "f32", 2);
      }
    }
    bench.close();
  });

  it("dropout keeps the promised share, and the backward pass drops the same elements", async () => {
    const count = 400_000;
    const ones = new Float64Array(count).fill(1);
    const args = { count, dtype: "bf16", probability: 0.25, key: 1234, firstElement: 6 } as const;
    const [bytes] = await sameForAnyWorkers(isa, async (bench) => {
      const x = bench.place(ones, "bf16");
      const out = bench.space(2 * count);
      await bench.run("dropout", { ...args, x, out });
      return [bench.bytes(out, 2 * count)];
    });
    const kept = new Uint16Array(bytes!.buffer).filter((bits) => bits !== 0).length;
    // Five standard deviations of a binomial count.
    expect(Math.abs(kept / count - 0.75)).toBeLessThan(5 * Math.sqrt((0.75 * 0.25) / count));
    const bench = new Workbench(isa);
    const dy = bench.place(ones.subarray(0, 1000), "bf16");
    await bench.run("dropout", { ...args, count: 1000, x: dy, out: dy });
    expect(Buffer.compare(bench.bytes(dy, 2000), bytes!.subarray(0, 2000))).toBe(0);
    bench.close();
  });

  it("initNormal draws what Box-Muller gives for an element's own words", async () => {
    const bench = new Workbench(isa);
    const count = 203;
    for (const dtype of floatTypes)
      for (const [key, firstElement] of places) {
        const dst = bench.space(count * 4, 4);
        await bench.run("initNormal", { count, dtype, key, firstElement, mean: 1.5, std: 0.02, dst });
        // A radius near zero comes from a logarithm near zero, of which fp32 keeps few digits.
        const wanted = normalsOf(key, firstElement, count).map((z) => 1.5 + 0.02 * z);
        expectClose(bench.read(dst, count, dtype), rounded(wanted, dtype), dtype, dtype === "f32" ? 30 : 2.1);
      }
    bench.close();
  });

  it("initUniform spreads an element's own word evenly over a range, without its upper end", async () => {
    const bench = new Workbench(isa);
    const count = 203;
    for (const dtype of floatTypes)
      for (const [key, firstElement] of places) {
        const dst = bench.space(count * 4, 4);
        await bench.run("initUniform", { count, dtype, key, firstElement, low: -0.25, high: 0.75, dst });
        const wanted = wordsOf(key, firstElement, count).map((word) => (word >>> 8) / 2 ** 24 - 0.25);
        expectClose(bench.read(dst, count, dtype), rounded(wanted, dtype), dtype, 1);
      }
    bench.close();
  });

  it("initUniform has the moments of an even distribution and does not depend on how a range is cut", async () => {
    const count = 200_000;
    const args = { dtype: "f32", key: 42, low: -1, high: 1 } as const;
    const [bytes] = await sameForAnyWorkers(isa, async (bench) => {
      const dst = bench.space(4 * count);
      await bench.run("initUniform", { ...args, count, firstElement: 0, dst });
      return [bench.bytes(dst, 4 * count)];
    });
    const values = new Float32Array(bytes!.buffer);
    const moment = (power: number) => values.reduce((total, v) => total + v ** power, 0) / count;
    expect(Math.abs(moment(1))).toBeLessThan(5 * Math.sqrt(1 / 3 / count));
    expect(Math.abs(moment(2) - 1 / 3)).toBeLessThan(5 * Math.sqrt(4 / 45 / count));
    expect(values.every((v) => v >= -1 && v < 1)).toBe(true);
    const bench = new Workbench(isa);
    const dst = bench.space(4 * 64, 4);
    await bench.run("initUniform", { ...args, count: 64, firstElement: 333, dst });
    expect(Buffer.compare(bench.bytes(dst, 4 * 64), bytes!.subarray(4 * 333, 4 * 397))).toBe(0);
    bench.close();
  });

  it("initNormal has the moments of a normal distribution and does not depend on how a range is cut", async () => {
    const count = 500_000;
    const args = { dtype: "f32", key: 42, mean: 0, std: 1 } as const;
    const [bytes] = await sameForAnyWorkers(isa, async (bench) => {
      const dst = bench.space(4 * count);
      await bench.run("initNormal", { ...args, count, firstElement: 0, dst });
      return [bench.bytes(dst, 4 * count)];
    });
    const values = new Float32Array(bytes!.buffer);
    const moment = (power: number) => values.reduce((total, v) => total + v ** power, 0) / count;
    expect(Math.abs(moment(1))).toBeLessThan(5 / Math.sqrt(count));
    expect(Math.abs(moment(2) - 1)).toBeLessThan(5 * Math.sqrt(2 / count));
    expect(Math.abs(moment(3))).toBeLessThan(5 * Math.sqrt(15 / count));
    expect(Math.abs(moment(4) - 3)).toBeLessThan(5 * Math.sqrt(96 / count));
    const bench = new Workbench(isa);
    for (const [first, length] of [
      [1, 99],
      [333, 64],
      [77_777, 1],
    ] as const) {
      const dst = bench.space(4 * length, 4);
      await bench.run("initNormal", { ...args, count: length, firstElement: first, dst });
      expect(Buffer.compare(bench.bytes(dst, 4 * length), bytes!.subarray(4 * first, 4 * (first + length)))).toBe(0);
    }
    bench.close();
  });
});
