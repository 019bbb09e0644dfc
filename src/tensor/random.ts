/** Keys of counter-based random numbers: what a number depends on, and nothing else (contracts 6, 22). */
import { createHash } from "node:crypto";

/** A Philox key from words and numbers: the first 53 bits of their SHA-256, so it is a safe integer. */
export function randomKey(...parts: readonly (string | number)[]): number {
  const digest = createHash("sha256").update(parts.join("\0")).digest();
  return Number(digest.readBigUInt64LE(0) >> 11n);
}

/** A number in [0, 1) that depends on (seed, index) alone. */
export function uniform(seed: number, index: number): number {
  return randomKey("uniform", seed, index) / 2 ** 53;
}

/** Where in training a pass is: dropout is keyed by (seed, attempted step, op name) and counts (global sample, element). */
export class RandomKeys {
  readonly seed: number;
  readonly step: number;
  /** Global index of the first sample of this micro-batch. */
  readonly firstSample: number;

  constructor(seed: number, step = 0, firstSample = 0) {
    this.seed = seed;
    this.step = step;
    this.firstSample = firstSample;
  }

  dropout(opName: string): number {
    return randomKey("dropout", this.seed, this.step, opName);
  }
}
