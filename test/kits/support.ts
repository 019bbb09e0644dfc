/**
 * What kernel tests share: values of every dtype as bytes, memory for one op's operands, running an op on the native core
 * with a given instruction set and number of workers, and comparison by the precision of a dtype.
 */
import { afterAll, describe, expect } from "vitest";
import { type DType, dtypeBytes } from "../../src/device/dtype.ts";
import { encode } from "../../src/device/encode.ts";
import { loadNative, type Native } from "../../src/device/native.ts";
import { type OpArgs, type OpName, opFields, type Span } from "../../src/device/ops.ts";
import { NativeMissingError } from "../../src/errors/errors.ts";

function nativeOrNull(): Native | null {
  try {
    return loadNative();
  } catch (error) {
    if (error instanceof NativeMissingError) return null;
    throw error;
  }
}

/** Null when the addon is not built: kernel tests are skipped then. */
export const native = nativeOrNull();
export const instructionSets: readonly string[] = native?.isa().available ?? ["not built"];
export const floatTypes = ["f32", "bf16", "f16"] as const satisfies readonly DType[];
export type FloatType = (typeof floatTypes)[number];

/** The distance from 1 to the next number of a dtype: half of it bounds the relative error of one rounding. */
export const epsilonOf: Readonly<Record<FloatType, number>> = { f32: 2 ** -23, bf16: 2 ** -7, f16: 2 ** -10 };

/** Registers `body` once per instruction set of this machine; inside it that set is the selected one. */
export function describeKernels(title: string, body: (isa: string) => void): void {
  const selected = native?.isa().selected;
  describe.skipIf(!native).each(instructionSets)(`${title} (%s)`, (isa) => {
    afterAll(() => native!.selectIsa(selected!));
    body(isa);
  });
}

const word = new DataView(new ArrayBuffer(4));

/** The bit pattern of bf16 nearest to `x` (ties to even). */
export function bf16Bits(x: number): number {
  word.setFloat32(0, x);
  const bits = word.getUint32(0);
  if (Number.isNaN(x)) return (bits >>> 16) | 0x40;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

export function bf16Value(bits: number): number {
  word.setUint32(0, bits << 16);
  return word.getFloat32(0);
}

/** The bit pattern of IEEE half precision nearest to the float32 nearest to `x` (ties to even). */
export function f16Bits(x: number): number {
  const value = Math.fround(x);
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  if (Number.isNaN(value)) return 0x7e00;
  const magnitude = Math.abs(value);
  if (magnitude >= 65520) return sign | 0x7c00;
  // The spacing of half-precision numbers around `magnitude`; below 2^-14 they are subnormal and it no longer shrinks.
  const exponent = Math.max(-14, Math.floor(Math.log2(magnitude)));
  const units = magnitude / 2 ** (exponent - 10);
  const below = Math.floor(units);
  const up = units - below > 0.5 || (units - below === 0.5 && below % 2 === 1);
  return sign | (((exponent + 14) << 10) + below + (up ? 1 : 0));
}

export function f16Value(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

export function toBytes(values: ArrayLike<number>, dtype: DType): Uint8Array {
  const typed =
    dtype === "f32"
      ? Float32Array.from(values)
      : dtype === "f64"
        ? Float64Array.from(values)
        : dtype === "i32"
          ? Int32Array.from(values)
          : Uint16Array.from(Array.from(values, dtype === "bf16" ? bf16Bits : f16Bits));
  return new Uint8Array(typed.buffer);
}

export function fromBytes(bytes: Uint8Array, dtype: DType): Float64Array {
  const { buffer } = bytes.slice();
  if (dtype === "f32") return Float64Array.from(new Float32Array(buffer));
  if (dtype === "f64") return new Float64Array(buffer);
  if (dtype === "i32") return Float64Array.from(new Int32Array(buffer));
  return Float64Array.from(new Uint16Array(buffer), dtype === "bf16" ? bf16Value : f16Value);
}

/** `values` as the dtype holds them. */
export const rounded = (values: ArrayLike<number>, dtype: DType): Float64Array =>
  fromBytes(toBytes(values, dtype), dtype);

/** Reproducible values in (-scale, scale). */
export function noise(count: number, seed: number, scale = 1): Float64Array {
  let state = (seed * 2654435761 + 12345) >>> 0;
  return Float64Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 31 - 1) * scale;
  });
}

/** Memory for the operands of a few ops, and one queue to run them on. Close it after use. */
export class Workbench {
  readonly threads: number;
  readonly region: number;
  readonly queue: number;
  private used = 0;

  /** `bytes` of memory; ops run on `threads` workers with instruction set `isa`. */
  constructor(isa: string, threads = 1, bytes = 32 << 20) {
    native!.selectIsa(isa);
    this.threads = threads;
    this.region = native!.createRegion(bytes);
    this.queue = native!.createQueue(threads);
  }

  /** Fresh memory, `skew` bytes beyond a 64-byte boundary. */
  space(bytes: number, skew = 0): Span {
    const offset = this.used + skew;
    this.used = Math.ceil((offset + bytes) / 64) * 64;
    return { region: this.region, offset };
  }

  /** Fresh memory holding `values`. */
  place(values: ArrayLike<number>, dtype: DType, skew = 0): Span {
    const bytes = toBytes(values, dtype);
    const span = this.space(bytes.length, skew);
    native!.writeRegion(span.region, span.offset, bytes);
    return span;
  }

  bytes(span: Span, length: number): Uint8Array {
    const into = new Uint8Array(length);
    native!.readRegion(span.region, span.offset, into);
    return into;
  }

  read(span: Span, count: number, dtype: DType): Float64Array {
    return fromBytes(this.bytes(span, count * dtypeBytes[dtype]), dtype);
  }

  scratchBytes<K extends OpName>(op: K, args: OpArgs<K>): number {
    if (!("scratch" in opFields[op])) return 0;
    const query = encode(op, args, null);
    return native!.scratchBytes(query.code, query.values, this.threads);
  }

  /** Enqueues an op, with scratch where it needs some; returns its sequence number. */
  issue<K extends OpName>(op: K, args: OpArgs<K>): number {
    const bytes = this.scratchBytes(op, args);
    const scratch: Span | null = bytes > 0 ? this.space(bytes) : null;
    const call = encode(op, args, scratch);
    return native!.issue(this.queue, call.code, call.values);
  }

  /** Runs an op to its end. */
  async run<K extends OpName>(op: K, args: OpArgs<K>): Promise<void> {
    await native!.reached(this.queue, this.issue(op, args));
  }

  close(): void {
    native!.destroyQueue(this.queue);
    native!.closeRegion(this.region);
  }
}

/** Runs `body` with 1, 2 and 3 workers and expects the same bytes of each; returns the first answer. */
export async function sameForAnyWorkers(
  isa: string,
  body: (bench: Workbench) => Promise<readonly Uint8Array[]>,
): Promise<readonly Uint8Array[]> {
  const answers: (readonly Uint8Array[])[] = [];
  for (const threads of [1, 2, 3]) {
    const bench = new Workbench(isa, threads);
    try {
      answers.push(await body(bench));
    } finally {
      bench.close();
    }
  }
  for (const other of answers.slice(1))
    for (const [i, bytes] of other.entries()) expect(Buffer.compare(bytes, answers[0]![i]!)).toBe(0);
  return answers[0]!;
}

/** Expects the same numbers, NaN for NaN and the signs of zeros included; faster over long arrays than toEqual. */
export function expectSame(found: ArrayLike<number>, wanted: ArrayLike<number>): void {
  expect(found.length).toBe(wanted.length);
  for (let i = 0; i < wanted.length; i++)
    if (!Object.is(found[i], wanted[i])) expect.fail(`element ${i}: ${found[i]}, wanted ${wanted[i]}`);
}

/**
 * Expects every value within `units` half spacings of `dtype` at the size of the wanted value, or at `floor` where that is
 * larger; NaN where NaN is wanted. Reports the worst element.
 */
export function expectClose(
  found: ArrayLike<number>,
  wanted: ArrayLike<number>,
  dtype: FloatType,
  units = 1.05,
  floor = 0,
): void {
  expect(found.length).toBe(wanted.length);
  const smallest = dtype === "f16" ? 2 ** -14 : 2 ** -126;
  let worst = { ratio: 0, index: -1, found: 0, wanted: 0 };
  for (let i = 0; i < wanted.length; i++) {
    const a = found[i]!;
    const b = wanted[i]!;
    if (Object.is(a, b) || a === b || (Number.isNaN(a) && Number.isNaN(b))) continue;
    const allowed = (units * epsilonOf[dtype] * Math.max(Math.abs(b), floor, smallest)) / 2;
    const ratio = Math.abs(a - b) / allowed;
    if (!(ratio <= worst.ratio)) worst = { ratio, index: i, found: a, wanted: b };
  }
  if (!(worst.ratio <= 1))
    expect.fail(`element ${worst.index}: ${worst.found}, wanted ${worst.wanted} (${worst.ratio} x allowed)`);
}
