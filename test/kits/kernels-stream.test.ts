/** Results so large that they bypass the caches: the same bits as in small calls, and nothing written beyond them. */
import { expect, it } from "vitest";
import { type DType, dtypeBytes } from "../../src/device/dtype.ts";
import type { Span } from "../../src/device/ops.ts";
import { describeKernels, native, toBytes, Workbench } from "./support.ts";

/** Just above 8 MiB, in no whole number of vectors. */
const largeCount = (dtype: DType) => (8 << 20) / dtypeBytes[dtype] + 1237;

const from = (span: Span, elements: number, dtype: DType): Span => ({
  region: span.region,
  offset: span.offset + elements * dtypeBytes[dtype],
});

/** Normal values made on the spot. */
async function normal(bench: Workbench, key: number, count: number, dtype: DType): Promise<Span> {
  const dst = bench.space(count * dtypeBytes[dtype], dtypeBytes[dtype]);
  await bench.run("initNormal", { count, dtype, key, firstElement: 0, mean: 0, std: 1, dst });
  return dst;
}

/** Room for a result with a mark behind it, off the vector boundary. */
function target(bench: Workbench, count: number, dtype: DType): Span {
  const dst = bench.space(count * dtypeBytes[dtype] + 64, 3 * dtypeBytes[dtype]);
  native!.writeRegion(dst.region, dst.offset + count * dtypeBytes[dtype], new Uint8Array(64).fill(7));
  return dst;
}

function expectMark(bench: Workbench, dst: Span, count: number, dtype: DType): void {
  expect(bench.bytes(from(dst, count, dtype), 64)).toEqual(new Uint8Array(64).fill(7));
}

const expectSameBytes = (bench: Workbench, a: Span, b: Span, bytes: number) =>
  expect(Buffer.compare(bench.bytes(a, bytes), bench.bytes(b, bytes))).toBe(0);

describeKernels("large results", (isa) => {
  it.each([
    ["bf16", "bf16"],
    ["bf16", "f32"],
    ["f32", "f16"],
  ] as const)("of a reduction from %s to %s", async (srcType, dstType) => {
    const bench = new Workbench(isa, 2, 128 << 20);
    const count = largeCount(dstType);
    const part = count >> 2;
    const src = await normal(bench, 1, count, srcType);
    const whole = target(bench, count, dstType);
    const pieces = target(bench, count, dstType);
    const args = { srcType, dstType, factor: 0.3, accumulate: false };
    await bench.run("accumulate", { count, src, dst: whole, ...args });
    for (let i = 0; i < count; i += part) {
      const spans = { src: from(src, i, srcType), dst: from(pieces, i, dstType) };
      await bench.run("accumulate", { count: Math.min(part, count - i), ...spans, ...args });
    }
    expectSameBytes(bench, whole, pieces, count * dtypeBytes[dstType] + 64);
    expectMark(bench, whole, count, dstType);
    bench.close();
  });

  it.each(["bf16", "f32"] as const)("of a fill in %s", async (dtype) => {
    const bench = new Workbench(isa, 2, 64 << 20);
    const count = largeCount(dtype);
    const dst = target(bench, count, dtype);
    await bench.run("fill", { count, dtype, value: 1.5, dst });
    const wanted = Buffer.alloc(count * dtypeBytes[dtype], toBytes([1.5], dtype));
    expect(Buffer.compare(bench.bytes(dst, wanted.length), wanted)).toBe(0);
    expectMark(bench, dst, count, dtype);
    bench.close();
  });

  it("of adam: the 16-bit parameters are the rounded master weights", async () => {
    const bench = new Workbench(isa, 2, 128 << 20);
    const count = largeCount("bf16");
    const master = await normal(bench, 1, count, "f32");
    const firstMoment = bench.space(count * 4);
    const secondMoment = bench.space(count * 4);
    const gradient = await normal(bench, 3, count, "bf16");
    const parameter = target(bench, count, "bf16");
    const rounded = bench.space(count * 2);
    await bench.run("adam", {
      ...{ count, master, firstMoment, secondMoment, gradient, parameter, gradientType: "bf16", parameterType: "bf16" },
      ...{ learningRate: 0.01, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1, decoupled: true },
      ...{ correction1: 0.1, correction2: 0.01, gradientScale: 1 },
    });
    await bench.run("cast", { count, srcType: "f32", dstType: "bf16", src: master, dst: rounded });
    expectSameBytes(bench, parameter, rounded, count * 2);
    expectMark(bench, parameter, count, "bf16");
    bench.close();
  });
});
