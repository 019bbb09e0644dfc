// Rounding to 16 bits, over every value that there is.
import { describe, expect, test } from "vitest";
import { fromFloat32, toFloat32 } from "../../src/device/halves.ts";

const all = Uint16Array.from({ length: 65536 }, (_, i) => i);
const bitsOf = (values: Float32Array, type: "F16" | "BF16"): Uint16Array =>
  new Uint16Array(fromFloat32(values, type).slice().buffer);

describe.each(["F16", "BF16"] as const)("%s", (type) => {
  const exact = toFloat32(new Uint8Array(all.buffer), type);
  const largest = type === "F16" ? 0x7bff : 0x7f7f;

  test("every value is itself, and what is no number stays none", () => {
    const again = bitsOf(exact, type);
    for (const [i, value] of exact.entries()) {
      if (Number.isNaN(value)) expect(toFloat32(new Uint8Array(again.buffer, 2 * i, 2).slice(), type)[0]).toBeNaN();
      else if (again[i] !== i) expect.fail(`${value}: found ${again[i]}; wanted ${i}`);
    }
  });

  test("between two neighbours the nearer one, in the middle the even one, of both signs", () => {
    for (let i = 0; i < largest; i++) {
      const [low, high] = [exact[i]!, exact[i + 1]!];
      const middle = (low + high) / 2;
      const values = Float32Array.of(middle, middle * (1 - 2 ** -22), middle * (1 + 2 ** -22));
      // Beside the smallest fp32 numbers there is nothing in between.
      if (values[0] !== middle || values[1] === middle || values[2] === middle) continue;
      const found = bitsOf(values, type);
      const wanted = [i % 2 === 0 ? i : i + 1, i, i + 1];
      if (found.join() !== wanted.join()) expect.fail(`around ${middle}: found ${found}; wanted ${wanted}`);
      const negative = bitsOf(
        values.map((value) => -value),
        type,
      );
      if (negative.join() !== wanted.map((bits) => bits | 0x8000).join()) expect.fail(`around ${-middle}`);
    }
  });

  test("beyond the largest is infinity, from half a step on", () => {
    const [last, before] = [exact[largest]!, exact[largest - 1]!];
    const half = last + (last - before) / 2;
    const infinite = type === "F16" ? 0x7c00 : 0x7f80;
    const values = Float32Array.of(
      last,
      half * (1 - 2 ** -20),
      half,
      Number.POSITIVE_INFINITY,
      Number.NEGATIVE_INFINITY,
    );
    expect([...bitsOf(values, type)]).toEqual([largest, largest, infinite, infinite, infinite | 0x8000]);
  });
});

test("fp32 stays as it is", () => {
  expect([...fromFloat32(Float32Array.of(1.5), "F32")]).toEqual([0, 0, 0xc0, 0x3f]);
});
