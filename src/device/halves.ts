/** Element types of weight files, and of what is read from a device, and their conversion to fp32. */

export type FloatType = "F32" | "F16" | "BF16";

export const floatBytes: Readonly<Record<FloatType, number>> = { F32: 4, F16: 2, BF16: 2 };

/** The fp32 values of little-endian bytes; `bytes` must begin at a multiple of 4 in its buffer. Exact for every type. */
export function toFloat32(bytes: Uint8Array<ArrayBuffer>, type: FloatType): Float32Array<ArrayBuffer> {
  if (type === "F32") return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  const halves = new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
  const values = new Float32Array(halves.length);
  const bits = new Uint32Array(values.buffer);
  for (let i = 0; i < halves.length; i++) bits[i] = type === "BF16" ? halves[i]! << 16 : float16Bits(halves[i]!);
  return values;
}

/** The bits of the fp32 number that equals an fp16 number (IEEE 754 binary16). */
function float16Bits(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >>> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0x1f) return sign | 0x7f800000 | (fraction << 13);
  if (exponent !== 0) return sign | ((exponent + 112) << 23) | (fraction << 13);
  if (fraction === 0) return sign;
  // A subnormal: shift until the leading one stands in the place that fp32 leaves out.
  const shift = Math.clz32(fraction) - 21;
  return sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13);
}

/** Little-endian bytes of fp32 values in a type, each rounded to the nearest, ties to even. Beyond what fp16 holds is infinity. */
export function fromFloat32(values: Float32Array, type: FloatType): Uint8Array {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  if (type === "F32") return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const halves = new Uint16Array(values.length);
  const round = type === "BF16" ? bfloat16Of : float16Of;
  for (let i = 0; i < halves.length; i++) halves[i] = round(bits[i]!);
  return new Uint8Array(halves.buffer);
}

function bfloat16Of(bits: number): number {
  // Rounding could carry a NaN's fraction away.
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) | 0x40;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

function float16Of(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const size = bits & 0x7fffffff;
  if (size > 0x7f800000) return sign | 0x7e00;
  // 65520 and more is nearer to 65536, which there is not.
  if (size >= 0x477ff000) return sign | 0x7c00;
  if (size >= 0x38800000) return sign | ((size - 0x38000000 + 0xfff + ((size >>> 13) & 1)) >>> 13);
  // A subnormal counts steps of 2^-24; what is not above half of one is zero.
  if (size <= 0x33000000) return sign;
  const shift = 126 - (size >>> 23);
  const fraction = (size & 0x7fffff) | 0x800000;
  const kept = fraction >>> shift;
  const rest = fraction & ((1 << shift) - 1);
  const half = 1 << (shift - 1);
  return sign | (kept + (rest > half || (rest === half && (kept & 1) === 1) ? 1 : 0));
}
