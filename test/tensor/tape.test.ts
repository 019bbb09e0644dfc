// What the tape promises about memory: scopes free what is not kept, backward frees what it has used, nothing is used after that.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Device } from "../../src/device/device.ts";
import { DisposedError, ShapeError } from "../../src/errors/errors.ts";
import { add, gelu, multiply, scale } from "../../src/tensor/ops/elementwise.ts";
import { embedding } from "../../src/tensor/ops/embedding.ts";
import { linear } from "../../src/tensor/ops/linear.ts";
import type { Tape } from "../../src/tensor/tape.ts";
import { Tensor } from "../../src/tensor/tensor.ts";
import { cpuDevice, PlainWeight, read, tapeOn, values } from "./support.ts";

let device: Device;
let heldBefore: number;
let w: PlainWeight;
let b: PlainWeight;
let table: PlainWeight;

beforeEach(() => {
  device = cpuDevice();
  w = new PlainWeight(device, "w", [16, 16]);
  b = new PlainWeight(device, "b", [16]);
  table = new PlainWeight(device, "table", [8, 16]);
  for (const [i, weight] of [w, b, table].entries()) device.upload(weight.value.span, values(weight.value.elements, i));
  heldBefore = device.ledger.total("device");
});

afterEach(() => device.dispose());

const start = (tape: Tape): Tensor => embedding(tape, tape.integers(Int32Array.of(0, 1, 2, 3, 4, 5, 6, 7), [8]), table);
const activations = (): number => device.ledger.current("device", "activations");

/** The mean of all elements: enough of a loss for tests of memory. */
function mean(tape: Tape, x: Tensor): Tensor {
  const loss = tape.make([1], "f32", true);
  const factor = 1 / x.elements;
  device.issue("compute", "sum", { count: x.elements, x: x.span, factor, dst: loss.span, accumulate: false });
  return tape.record("mean", [x], loss, [], () => {
    const dx = Tensor.allocate(device, x.shape, x.dtype);
    device.issue("compute", "fill", { count: x.elements, dtype: "f32", value: factor, dst: dx.span });
    return [dx];
  });
}

describe("scopes", () => {
  test("what is made in a scope goes with it, save its result and what backward needs", () => {
    const tape = tapeOn(device);
    const x = start(tape);
    const before = activations();
    const y = tape.scope(() => scale(tape, scale(tape, x, 2), 3));
    // Scaling keeps nothing: of the two results one is left.
    expect(activations() - before).toBe(y.elements * 4);
    const z = tape.scope(() => gelu(tape, gelu(tape, x)));
    // GELU keeps its input: both are left.
    expect(activations() - before).toBe((y.elements + 2 * z.elements) * 4);
    tape.dispose();
    expect(device.ledger.total("device")).toBe(heldBefore);
  });

  test("an intermediate that was used after its scope is a named error", () => {
    const tape = tapeOn(device);
    let inner: Tensor | undefined;
    tape.scope(() => {
      inner = scale(tape, start(tape), 2);
      return scale(tape, inner, 3);
    });
    expect(() => scale(tape, inner!, 4)).toThrow(DisposedError);
    expect(() => inner!.retain()).toThrow(/\[8, 16\] f32 was used after it was freed; an intermediate lives until/);
    tape.dispose();
  });

  test("without training nothing is kept", () => {
    const tape = tapeOn(device, { training: false });
    const x = start(tape);
    const before = activations();
    const deep = tape.scope(() => {
      let y = x;
      for (let i = 0; i < 5; i++) y = gelu(tape, y);
      return y;
    });
    expect(activations() - before).toBe(deep.elements * 4);
    tape.dispose();
    expect(device.ledger.total("device")).toBe(heldBefore);
  });

  test("an error in the middle of a pass leaves nothing behind", () => {
    const tape = tapeOn(device);
    const x = start(tape);
    expect(() => tape.scope(() => add(tape, gelu(tape, x), tape.make([3])))).toThrow(ShapeError);
    tape.dispose();
    expect(device.ledger.total("device")).toBe(heldBefore);
  });
});

describe("backward", () => {
  test("frees as it goes: the peak is far below a second set of activations", async () => {
    const tape = tapeOn(device);
    let x = start(tape);
    for (let i = 0; i < 20; i++) x = gelu(tape, x);
    const loss = mean(tape, x);
    const kept = activations();
    device.ledger.beginStep();
    await tape.backward(loss);
    const { peak } = device.ledger.snapshot().device.activations;
    expect(peak).toBeLessThanOrEqual(kept + 5 * 8 * 16 * 4);
    expect(device.ledger.total("device")).toBe(heldBefore);
  });

  test("what backward has used is gone, and says so", async () => {
    const tape = tapeOn(device);
    const x = start(tape);
    const y = linear(tape, x, w, b, { layout: "inOut", gelu: true });
    await tape.backward(mean(tape, y));
    expect(() => y.span).toThrow(DisposedError);
  });

  test("a loss of several elements is refused", async () => {
    const tape = tapeOn(device);
    await expect(tape.backward(start(tape))).rejects.toThrow(ShapeError);
    tape.dispose();
  });

  test("a gradient that comes by many ways is their sum", async () => {
    const tape = tapeOn(device);
    const x = start(tape);
    // 1 + 1 + (1 + 1) + 2: the same gradient object by two ways, added again, and scaled.
    const doubled = add(tape, x, x);
    await tape.backward(mean(tape, add(tape, add(tape, doubled, doubled), scale(tape, x, 2))));
    const gradient = await read(device, table.gradient);
    for (const value of gradient) expect(value).toBeCloseTo(6 / 128, 6);
  });
});

describe("activation checkpointing", () => {
  async function pass(checkpointing: boolean) {
    for (const weight of [w, b, table]) weight.forget();
    const tape = tapeOn(device, { checkpointing });
    device.ledger.beginStep();
    const owner = {};
    let x = await tape.segment(owner, [], () => start(tape));
    const block = (x: Tensor): Tensor =>
      tape.scope(() => {
        const inner = linear(tape, x, w, b, { layout: "inOut", gelu: true });
        return add(tape, x, multiply(tape, gelu(tape, inner), inner));
      });
    for (let i = 0; i < 6; i++) x = await tape.segment(owner, [x], block, { recompute: true });
    const loss = mean(tape, x);
    await tape.backward(loss);
    const gradients = await Promise.all([w, b, table].map((weight) => read(device, weight.gradient)));
    return { gradients, peak: device.ledger.snapshot().device.activations.peak };
  }

  test("the same bits with less memory", async () => {
    const kept = await pass(false);
    const recomputed = await pass(true);
    expect(recomputed.gradients).toEqual(kept.gradients);
    expect(recomputed.peak).toBeLessThan(0.6 * kept.peak);
    expect(device.ledger.total("device")).toBe(heldBefore);
  });
});
