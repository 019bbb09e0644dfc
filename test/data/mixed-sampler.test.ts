// Which sample is which window, where sources have weights.
import { describe, expect, test } from "vitest";
import { DataLoader } from "../../src/data/loader.ts";
import { MixedSampler } from "../../src/data/mixed-sampler.ts";
import { trainingWords, windowPlaces } from "../../src/data/row-places.ts";
import { WindowRows } from "../../src/data/rows.ts";
import { RowSampler } from "../../src/data/sampler.ts";
import { DataError } from "../../src/errors/errors.ts";
import { DataFolder } from "./prepared.ts";

const seqLength = 4;
/** The k-th source has 4 * windows[k] + 1 tokens. */
function mix(weights: number[], windows: number[], options: { shuffle?: boolean; seed?: number } = {}): MixedSampler {
  const sources = weights.map((weight, i) => ({
    name: `source ${i}`,
    weight,
    rows: windowPlaces(seqLength * windows[i]! + 1, seqLength),
  }));
  return new MixedSampler({ sources, seed: 42, shuffle: true, ...options });
}
/** Which source each of the first samples is from, where the second begins at token 401. */
const sourcesOf = (sampler: MixedSampler, count: number): number[] =>
  Array.from({ length: count }, (_, sample) => (sampler.place(sample) < 401 ? 0 : 1));

describe("weights", () => {
  test("0.7 to 0.3: seven of any ten, never far from it", () => {
    const sources = sourcesOf(mix([0.7, 0.3], [100, 100]), 1000);
    for (let from = 0; from + 10 <= 1000; from++) {
      const second = sources.slice(from, from + 10).reduce((a, b) => a + b, 0);
      expect(second).toBeGreaterThanOrEqual(2);
      expect(second).toBeLessThanOrEqual(4);
    }
    expect(sources.reduce((a, b) => a + b, 0)).toBe(300);
  });

  test("are relative, and each source has a slot at least", () => {
    expect(sourcesOf(mix([7, 3], [100, 100]), 100)).toEqual(sourcesOf(mix([0.7, 0.3], [100, 100]), 100));
    const rare = mix([1, 1e-9], [100, 10]);
    expect(rare.shares(10_000).map(({ share }) => share)).toEqual([0.9999, 0.0001]);
    expect(
      mix([1, 1, 1], [9, 9, 9])
        .shares(90)
        .map(({ epochs }) => epochs.toFixed(2)),
    ).toEqual(["3.33", "3.33", "3.33"]);
  });

  test("the turns do not depend on the seed; the windows do", () => {
    const [one, other] = [mix([2, 1], [100, 100]), mix([2, 1], [100, 100], { seed: 43 })];
    expect(sourcesOf(one, 300)).toEqual(sourcesOf(other, 300));
    expect(one.place(0)).not.toBe(other.place(0));
  });
});

describe("windows", () => {
  test("each source sees every window once an epoch, begins anew by itself, and never crosses into another", () => {
    const sampler = mix([3, 1], [6, 20]);
    expect(sampler.rowCount).toBe(26);
    const firsts = Array.from({ length: 80 }, (_, sample) => sampler.place(sample));
    const small = firsts.filter((first) => first < 25);
    const large = firsts.filter((first) => first >= 25);
    expect([small.length, large.length]).toEqual([60, 20]);
    for (let epoch = 0; epoch < 10; epoch++)
      expect(small.slice(6 * epoch, 6 * epoch + 6).sort((a, b) => a - b)).toEqual([0, 4, 8, 12, 16, 20]);
    expect(large.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => 25 + 4 * i));
  });

  test("without shuffling each source is read in order", () => {
    const firsts = Array.from({ length: 8 }, (_, sample) => mix([1, 1], [3, 100], { shuffle: false }).place(sample));
    expect(firsts).toEqual([0, 13, 4, 17, 8, 21, 0, 25]);
  });

  test("one source with any weight is the plain order", () => {
    const plain = new RowSampler(windowPlaces(401, seqLength), { seed: 42, shuffle: true });
    const one = mix([0.4], [100]);
    for (let sample = 0; sample < 250; sample++) expect(one.place(sample)).toBe(plain.place(sample));
  });

  test("a source of less than a window is named", () => {
    const make = () => windowPlaces(4, seqLength, trainingWords("b.txt"));
    expect(make).toThrow(DataError);
    expect(make).toThrow(/b\.txt has 4 tokens; wanted at least 5/);
  });

  test("any number of ranks sees the same samples of a step", async () => {
    const sampler = mix([2, 1], [50, 50]);
    const source = {
      count: 402,
      read: async (first: number, length: number) => Int32Array.from({ length }, (_, i) => first + i),
      close: async () => undefined,
      [Symbol.asyncDispose]: async () => undefined,
    };
    const seen = await Promise.all(
      [1, 2, 3, 6].map(async (worldSize) => {
        const inputs: number[] = [];
        for (let rank = 0; rank < worldSize; rank++) {
          const rows = new WindowRows(source, seqLength);
          const options = { rows, sampler, microBatch: 6 / worldSize, gradientAccumulation: 1, worldSize, rank };
          inputs.push(...(await new DataLoader(options).batch(11, 0)).inputs);
        }
        return inputs.join();
      }),
    );
    expect(new Set(seen).size).toBe(1);
  });
});

describe("on the command line", () => {
  const data = new DataFolder();
  test("a number after a colon is a weight, unless a file has that name", async () => {
    const [a, b] = [data.file("a.txt", "a"), data.file("b.txt", "b")];
    const weightsOf = async (...args: string[]) => (await data.prepare(args)).sources.map(({ weight }) => weight);
    expect(await weightsOf(`${a}:0.7`, `${b}:3e-1`)).toEqual([0.7, 0.3]);
    expect(await weightsOf(a, b)).toEqual([undefined, undefined]);
    expect(await weightsOf(data.file("c.txt:1", "c"))).toEqual([undefined]);
    expect(await weightsOf(`${data.at("*.txt")}:2`)).toEqual([2]);
    expect(await data.refusal([`${a}:1`, b])).toMatch(/b\.txt has no weight, though others have one/);
    expect(await data.refusal([`${a}:0`])).toMatch(/weight of 0; wanted a number above 0/);
  });
});
