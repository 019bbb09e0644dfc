/**
 * Philox4x32-10, a counter-based random generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11): the
 * same function as in the native core, here for the order of samples.
 */

/** High and low half of the 64-bit product of two 32-bit words, without BigInt. */
function multiplyHigh(a: number, b: number): number {
  const aHigh = a >>> 16;
  const aLow = a & 0xffff;
  const bHigh = b >>> 16;
  const bLow = b & 0xffff;
  const cross = aHigh * bLow + ((aLow * bLow) >>> 16);
  const middle = (cross & 0xffff) + aLow * bHigh;
  return (aHigh * bHigh + Math.floor(cross / 0x10000) + Math.floor(middle / 0x10000)) >>> 0;
}

/**
 * One draw: four 32-bit words written to `out` for a counter of four words and a key of two, all unsigned. `out` may be the
 * counter's own array.
 */
export function philox4x32(counter: Uint32Array, key0: number, key1: number, out: Uint32Array): void {
  let c0 = counter[0]!;
  let c1 = counter[1]!;
  let c2 = counter[2]!;
  let c3 = counter[3]!;
  let k0 = key0;
  let k1 = key1;
  for (let round = 0; round < 10; round++) {
    const high0 = multiplyHigh(0xd2511f53, c0);
    const high1 = multiplyHigh(0xcd9e8d57, c2);
    const low0 = Math.imul(0xd2511f53, c0) >>> 0;
    const low1 = Math.imul(0xcd9e8d57, c2) >>> 0;
    c0 = (high1 ^ c1 ^ k0) >>> 0;
    c1 = low1;
    c2 = (high0 ^ c3 ^ k1) >>> 0;
    c3 = low0;
    k0 = (k0 + 0x9e3779b9) >>> 0;
    k1 = (k1 + 0xbb67ae85) >>> 0;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/** The low and the high 32-bit word of a whole number from 0 to 2^53. */
export function words(value: number): [low: number, high: number] {
  return [value >>> 0, Math.floor(value / 0x1_0000_0000) >>> 0];
}
