/**
 * CRC-32 as in gzip and PNG.
 *
 * That of two runs of bytes, one after the other, is made of those of each: a CRC is the remainder of a polynomial over two elements, whose
 * coefficients are the bits (bit 31 that of x^0): bytes that follow multiply what came before by a power of x, and add their own.
 */
import { loadNative } from "../device/native.ts";

/** Of bytes that follow those of checksum `value`: zlib's, in half or a third of its time. */
export const crc32 = (bytes: Uint8Array, value = 0): number => loadNative().crc32(bytes, value);

/** x^32 less what all CRC-32s of this kind (gzip, PNG) divide by. */
const divisor = 0xedb88320;
const one = 0x80000000;

/** The product of two remainders, divided again. */
function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let bit = one; bit !== 0; bit >>>= 1) {
    if (a & bit) product ^= shifted;
    shifted = shifted & 1 ? (shifted >>> 1) ^ divisor : shifted >>> 1;
  }
  return product >>> 0;
}

/** What so many bytes that follow multiply by: x^(8 bytes). */
export function crc32Shift(bytes: number): number {
  let power = 0x00800000; // x^8
  let result = one;
  for (let left = bytes; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) result = multiply(power, result);
    power = multiply(power, power);
  }
  return result;
}

/** @param shift crc32Shift of the second run's length */
export const crc32Joined = (first: number, second: number, shift: number): number =>
  (multiply(shift, first) ^ second) >>> 0;
