import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Permutation } from "../../src/data/permutation.ts";
import { philox4x32, words } from "../../src/data/philox.ts";

describe("Philox4x32-10", () => {
  // The three known answers that Random123 publishes: counter, key, output.
  test.each([
    [
      [0, 0, 0, 0],
      [0, 0],
      [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8],
    ],
    [
      [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff],
      [0xffffffff, 0xffffffff],
      [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
    ],
    [
      [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
      [0xa4093822, 0x299f31d0],
      [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
    ],
  ])("known answer %#", (counter, [key0, key1], wanted) => {
    const out = new Uint32Array(4);
    philox4x32(Uint32Array.from(counter), key0!, key1!, out);
    expect([...out]).toEqual(wanted);
  });

  test("any counter and key: the same as by 64-bit integers", () => {
    const word = fc.integer({ min: 0, max: 0xffffffff });
    fc.assert(
      fc.property(fc.tuple(word, word, word, word), word, word, (counter, key0, key1) => {
        const out = new Uint32Array(4);
        philox4x32(Uint32Array.from(counter), key0, key1, out);
        expect([...out]).toEqual(byBigInt(counter, key0, key1));
      }),
      { numRuns: 200 },
    );
  });

  test("words of a number", () => {
    expect(words(2 ** 53 - 1)).toEqual([0xffffffff, 0x1fffff]);
    expect(words(0x1_8000_0000)).toEqual([0x80000000, 1]);
  });
});

function byBigInt(counter: readonly number[], key0: number, key1: number): number[] {
  const mask = 0xffffffffn;
  let c = counter.map(BigInt);
  let k = [BigInt(key0), BigInt(key1)];
  for (let round = 0; round < 10; round++) {
    const p0 = 0xd2511f53n * c[0]!;
    const p1 = 0xcd9e8d57n * c[2]!;
    c = [(p1 >> 32n) ^ c[1]! ^ k[0]!, p1 & mask, (p0 >> 32n) ^ c[3]! ^ k[1]!, p0 & mask];
    k = [(k[0]! + 0x9e3779b9n) & mask, (k[1]! + 0xbb67ae85n) & mask];
  }
  return c.map(Number);
}

const order = (size: number, seed: number, epoch: number) => {
  const permutation = new Permutation(size, seed, epoch);
  return Array.from({ length: size }, (_, i) => permutation.at(i));
};

describe("permutation", () => {
  test("every size: each position once", () => {
    for (const size of [1, 2, 3, 4, 5, 15, 16, 17, 255, 256, 257, 1000, 4097]) {
      expect(new Set(order(size, 42, 0)).size).toBe(size);
      expect(Math.max(...order(size, 42, 0))).toBe(size - 1);
    }
  });

  test("pinned: a change here would change every shuffled run", () => {
    expect(order(10, 42, 0)).toMatchInlineSnapshot(`
      [
        0,
        5,
        4,
        9,
        1,
        2,
        6,
        3,
        7,
        8,
      ]
    `);
    expect(order(10, 42, 1)).toMatchInlineSnapshot(`
      [
        1,
        5,
        7,
        6,
        4,
        8,
        2,
        9,
        3,
        0,
      ]
    `);
    expect(new Permutation(2 ** 40 + 7, 42, 3).at(123_456_789_012)).toMatchInlineSnapshot(`238962364635`);
  });

  test("seed and epoch give other orders, in their high words too", () => {
    const orders = [
      order(50, 1, 0),
      order(50, 2, 0),
      order(50, 1, 1),
      order(50, 1 + 2 ** 32, 0),
      order(50, 1, 2 ** 32),
    ];
    expect(new Set(orders.map(String)).size).toBe(orders.length);
  });

  test("the largest domain stays in range", () => {
    const size = 2 ** 52;
    const permutation = new Permutation(size, 7, 0);
    const values = Array.from({ length: 100 }, (_, i) => permutation.at(size - 1 - i));
    expect(new Set(values).size).toBe(100);
    for (const value of values) expect(Number.isSafeInteger(value) && value >= 0 && value < size).toBe(true);
  });

  test.each([3, 5, 8, 12])("over many seeds each of %i values is equally likely at each position", (size) => {
    const seeds = 3000;
    const counts = Array.from({ length: size }, () => new Array<number>(size).fill(0));
    for (let seed = 0; seed < seeds; seed++)
      for (const [i, value] of order(size, seed, 0).entries()) counts[i]![value]!++;
    const expected = seeds / size;
    const chiSquared = counts.flat().reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    // (size - 1)^2 degrees of freedom; 4 standard deviations above their mean.
    const freedom = (size - 1) ** 2;
    expect(chiSquared).toBeLessThan(freedom + 4 * Math.sqrt(2 * freedom));
  });

  test("neighbours do not stay neighbours", () => {
    const shuffled = order(10_000, 42, 0);
    const near = shuffled.filter((value, i) => i > 0 && Math.abs(value - shuffled[i - 1]!) === 1).length;
    expect(near).toBeLessThan(12); // 2 expected
  });
});
