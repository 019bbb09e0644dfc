// A tape on a CPU device of this process, plain weights, and gradients by central differences.
import { expect } from "vitest";
import { CpuBackend } from "../../src/device/cpu.ts";
import { Device } from "../../src/device/device.ts";
import { type DType, dtypeBytes } from "../../src/device/dtype.ts";
import { RandomKeys } from "../../src/tensor/random.ts";
import { Tape, type TapeOptions } from "../../src/tensor/tape.ts";
import { elementsOf, type Shape, Tensor } from "../../src/tensor/tensor.ts";
import type { Weight } from "../../src/tensor/weight.ts";

export function cpuDevice(threads = 1): Device {
  const arenaBytes = 2 ** 28;
  return new Device({ backend: new CpuBackend({ threads, arenaBytes }), arenaBytes });
}

export const tapeOn = (device: Device, more: Partial<TapeOptions> = {}): Tape =>
  new Tape({ device, dtype: "f32", training: true, random: new RandomKeys(7, 3, 5), ...more });

/** Values between -1 and 1 that depend on `seed` alone. */
export function values(count: number, seed: number): Float32Array {
  let state = Math.imul(seed + 1, 0x9e3779b1) >>> 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 32) * 2 - 1;
  });
}

export async function read(device: Device, tensor: Tensor): Promise<Float32Array> {
  const { elements } = tensor;
  const bytes = await device.read(tensor.span, "f32", elements, new Float32Array(elements));
  return new Float32Array(bytes.buffer);
}

/** A parameter that lies in memory of its own, with its gradient. */
export class PlainWeight implements Weight {
  readonly name: string;
  readonly shape: Shape;
  readonly trainable: boolean;
  readonly value: Tensor;
  readonly gradient: Tensor;
  #written = false;

  constructor(device: Device, name: string, shape: Shape, options: { trainable?: boolean; dtype?: DType } = {}) {
    this.name = name;
    this.shape = shape;
    this.trainable = options.trainable ?? true;
    const dtype = options.dtype ?? "f32";
    const make = (label: "parameters" | "gradients"): Tensor => {
      const buffer = device.allocate(label, elementsOf(shape) * dtypeBytes[dtype]);
      return Tensor.borrow(device, buffer, 0, shape, dtype);
    };
    this.value = make("parameters");
    this.gradient = make("gradients");
  }

  takeGradient(): { tensor: Tensor; accumulate: boolean } {
    if (!this.trainable) throw new Error(`${this.name} is frozen`);
    const accumulate = this.#written;
    this.#written = true;
    return { tensor: this.gradient, accumulate };
  }

  /** The next pass starts anew. */
  forget(): void {
    this.#written = false;
  }
}

/** An op under test: weights by name and shape, and a forward over them that ends in any tensor. */
export interface Check {
  readonly weights: Readonly<Record<string, Shape>>;
  readonly frozen?: readonly string[];
  forward(tape: Tape, weights: Readonly<Record<string, PlainWeight>>): Tensor;
  /** Scales the values of the weights. Defaults to 1. */
  readonly spread?: number;
}

/**
 * Compares the tape's gradients of sum(output * fixed random numbers) with central differences, element by element. fp32
 * values, so the step is 2^-7 and the bar is relative to the largest gradient of the weight.
 */
export async function checkGradients(check: Check, bar = 2e-3): Promise<void> {
  const device = cpuDevice();
  const weights: Record<string, PlainWeight> = {};
  const data: Record<string, Float32Array> = {};
  for (const [i, [name, shape]] of Object.entries(check.weights).entries()) {
    weights[name] = new PlainWeight(device, name, shape, { trainable: !(check.frozen ?? []).includes(name) });
    data[name] = values(elementsOf(shape), 11 * i + 3).map((v) => v * (check.spread ?? 1));
  }
  const write = (name: string): unknown => device.upload(weights[name]!.value.span, data[name]!);
  for (const name of Object.keys(data)) write(name);
  const value = async (): Promise<number> => {
    const tape = tapeOn(device);
    const output = check.forward(tape, weights);
    const products = (await read(device, output)).map((v, i) => v * mixing(output.elements)[i]!);
    for (const weight of Object.values(weights)) weight.forget();
    tape.dispose();
    return products.reduce((sum, p) => sum + p, 0);
  };
  const held = device.ledger.total("device");
  const tape = tapeOn(device);
  const output = check.forward(tape, weights);
  await tape.backward(output.elements === 1 ? output : mixedSum(tape, output));
  expect(device.ledger.total("device"), "what a pass made is gone after it").toBe(held);
  const step = 2 ** -7;
  for (const [name, weight] of Object.entries(weights)) {
    if (!weight.trainable) continue;
    const gradient = await read(device, weight.gradient);
    const numeric = new Float64Array(gradient.length);
    for (let i = 0; i < gradient.length; i++) {
      const at = data[name]![i]!;
      const side = async (x: number): Promise<number> => {
        data[name]![i] = x;
        write(name);
        return value();
      };
      numeric[i] = ((await side(at + step)) - (await side(at - step))) / (2 * step);
      await side(at);
    }
    const largest = Math.max(...numeric.map(Math.abs));
    expect(largest, `${name} has a gradient`).toBeGreaterThan(1e-3);
    numeric.forEach((wanted, i) => {
      expect(Math.abs(gradient[i]! - wanted) / largest, `${name}[${i}]: ${gradient[i]} for ${wanted}`).toBeLessThan(
        bar,
      );
    });
  }
  device.dispose();
}

/** What the output is multiplied with before it is summed: no two elements alike. A loss is one number and stands for itself. */
const mixing = (count: number): Float32Array => (count === 1 ? Float32Array.of(1) : values(count, 99));

/** sum(x * mixing) as an op of its own, so that no op under test is also part of the measure. */
function mixedSum(tape: Tape, x: Tensor): Tensor {
  const { device } = tape;
  const weights = mixing(x.elements);
  const loss = tape.make([1], "f32", true);
  return tape.record("mixedSum", [x], loss, [], () => {
    const dx = Tensor.allocate(device, x.shape, "f32");
    device.upload(dx.span, weights);
    return [dx];
  });
}
