/**
 * A keyed permutation of 0 .. size-1 in constant memory: a balanced Feistel network whose round function is Philox, over the
 * smallest even number of bits that holds `size`, walked along its cycle until the result is below `size` (Black and Rogaway,
 * "Ciphers with arbitrary finite domains", 2002). So ten billion windows need no table, and any position is found directly.
 */

import { philox4x32, words } from "./philox.ts";

/** More than the 4 that make a Feistel network a good permutation of a large domain: small domains need some more. */
const rounds = 8;

export class Permutation {
  readonly size: number;
  readonly #key: readonly [number, number];
  readonly #epoch: readonly [number, number];
  readonly #halfBits: number;
  readonly #draw = new Uint32Array(4);

  /** `size` from 1 to 2^52; `seed` and `epoch` whole numbers from 0 to 2^53. */
  constructor(size: number, seed: number, epoch: number) {
    this.size = size;
    this.#key = words(seed);
    this.#epoch = words(epoch);
    let halfBits = 1;
    while (2 ** (2 * halfBits) < size) halfBits++;
    this.#halfBits = halfBits;
  }

  /** Where position `index` (0 .. size-1) goes. On average fewer than 4 walks: the domain is less than 4 times `size`. */
  at(index: number): number {
    let value = index;
    do value = this.#encrypt(value);
    while (value >= this.size);
    return value;
  }

  #encrypt(value: number): number {
    const half = 2 ** this.#halfBits;
    let left = Math.floor(value / half);
    let right = value % half;
    for (let round = 0; round < rounds; round++) {
      const mixed = (left ^ this.#word(right, round)) & (half - 1);
      left = right;
      right = mixed;
    }
    return left * half + right;
  }

  #word(half: number, round: number): number {
    const draw = this.#draw;
    draw[0] = half;
    draw[1] = round;
    draw[2] = this.#epoch[0];
    draw[3] = this.#epoch[1];
    philox4x32(draw, this.#key[0], this.#key[1], draw);
    return draw[0];
  }
}
