// The output head works in chunks of rows: neither the loss nor the input gradient may tell how many (contracts 10).
import { describe, expect, test } from "vitest";
import { type DType, dtypeBytes } from "../../src/device/dtype.ts";
import { DTypeError, ShapeError } from "../../src/errors/errors.ts";
import { headChunkRows, headLoss } from "../../src/tensor/ops/loss.ts";
import type { Tensor } from "../../src/tensor/tensor.ts";
import { cpuDevice, PlainWeight, tapeOn, values } from "./support.ts";

const rows = 1100;
const hidden = 8;
const vocabulary = 33;
const targets = Int32Array.from({ length: rows }, (_, i) => (i % 7 === 3 ? -1 : (i * i) % vocabulary));
const targetCount = targets.filter((t) => t >= 0).length;

/** fp32 values of what `dtype` has as bytes; exact for both. */
function toFloats(bytes: Uint8Array, dtype: DType): Float32Array {
  if (dtype === "f32") return new Float32Array(bytes.slice().buffer);
  const halves = new Uint16Array(bytes.slice().buffer);
  return new Float32Array(Uint32Array.from(halves, (h) => h << 16).buffer);
}

/** Loss and gradients of the head over rows [first, first + count), seeded for the whole batch's number of targets. */
async function head(dtype: DType, first: number, count: number, lossSeed = 1) {
  const device = cpuDevice(2);
  const tape = tapeOn(device, { dtype, lossSeed, lossDivisor: targetCount });
  const weight = new PlainWeight(device, "w", [vocabulary, hidden], { dtype });
  const put = (data: Float32Array, to: Tensor): void => {
    const staging = device.allocate("staging", data.byteLength);
    device.upload(staging.at(), data);
    device.issue("compute", "cast", {
      count: data.length,
      srcType: "f32",
      dstType: dtype,
      src: staging.at(),
      dst: to.span,
    });
    device.free(staging);
  };
  put(values(vocabulary * hidden, 1), weight.value);
  const x = tape.make([count, hidden], dtype, true);
  put(values(rows * hidden, 2).slice(first * hidden, (first + count) * hidden), x);
  let dx: Tensor | undefined;
  tape.record("input", [], x, [], (gradient) => {
    dx = gradient.retain();
    return [];
  });
  const loss = headLoss(tape, x, weight, tape.integers(targets.slice(first, first + count), [count]));
  const [value] = toFloats(await device.read(loss.span, "f32", 1, new Float32Array(1)), "f32");
  await tape.backward(loss);
  const read = async (tensor: Tensor): Promise<Float32Array> => {
    const declared = new Uint8Array(tensor.elements * dtypeBytes[dtype]);
    return toFloats(await device.read(tensor.span, dtype, tensor.elements, declared), dtype);
  };
  const answer = { loss: value!, dx: await read(dx!), dw: await read(weight.gradient) };
  device.dispose();
  return answer;
}

describe("headLoss", () => {
  for (const dtype of ["f32", "bf16"] as const)
    test(`${dtype}: in chunks as in parts that are one chunk each`, async () => {
      expect(headChunkRows(rows, hidden, dtypeBytes[dtype])).toBe(512);
      const whole = await head(dtype, 0, rows);
      const borders = [0, 300, 411, 800, rows];
      const parts: Awaited<ReturnType<typeof head>>[] = [];
      for (let i = 0; i + 1 < borders.length; i++) {
        const count = borders[i + 1]! - borders[i]!;
        expect(headChunkRows(count, hidden, dtypeBytes[dtype])).toBe(count);
        parts.push(await head(dtype, borders[i]!, count));
      }
      expect(new Float32Array(parts.flatMap((p) => [...p.dx]))).toEqual(whole.dx);
      expect(parts.reduce((sum, p) => sum + p.loss, 0)).toBeCloseTo(whole.loss, 5);
      // In 16 bits each part was rounded once, and the chunked whole once: that is at most half a unit in the last place each.
      const unit = dtype === "f32" ? 2e-6 : 2 ** -8;
      const largest = Math.max(...whole.dw.map(Math.abs));
      whole.dw.forEach((w, i) => {
        expect(Math.abs(w - parts.reduce((sum, p) => sum + p.dw[i]!, 0)) / largest).toBeLessThan(unit);
      });
    });

  test("gradients start from the loss seed, the loss does not", async () => {
    const [one, eight] = [await head("f32", 0, 40), await head("f32", 0, 40, 8)];
    expect(eight.loss).toBe(one.loss);
    expect(eight.dx).toEqual(one.dx.map((d) => 8 * d));
    expect(eight.dw).toEqual(one.dw.map((d) => 8 * d));
  });

  test("rows without a target have no gradient", async () => {
    const { dx } = await head("f32", 0, 40);
    const ofRow = (row: number): number => Math.max(...dx.slice(row * hidden, (row + 1) * hidden).map(Math.abs));
    for (let row = 0; row < 40; row++) expect(ofRow(row) === 0).toBe(targets[row]! < 0);
  });

  test("wrong shapes and types are named", () => {
    const device = cpuDevice();
    const tape = tapeOn(device);
    const weight = new PlainWeight(device, "lm_head.weight", [vocabulary, hidden]);
    const x = tape.make([4, hidden + 1]);
    expect(() => headLoss(tape, x, weight, tape.integers(new Int32Array(4), [4]))).toThrow(ShapeError);
    expect(() => headLoss(tape, x, weight, tape.integers(new Int32Array(4), [4]))).toThrow(/lm_head.weight.*width 8/);
    const y = tape.make([4, hidden]);
    expect(() => headLoss(tape, y, weight, tape.integers(new Int32Array(3), [3]))).toThrow(DTypeError);
    expect(() => headLoss(tape, y, weight, tape.make([4]))).toThrow(/4 i32 targets/);
    tape.dispose();
    device.dispose();
  });
});
