/** Element types of weight files and their conversion to fp32. */

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
