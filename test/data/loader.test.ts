import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { DataLoader } from "../../src/data/loader.ts";
import { windowPlaces } from "../../src/data/row-places.ts";
import { WindowRows } from "../../src/data/rows.ts";
import { RowSampler } from "../../src/data/sampler.ts";
import type { TokenSource } from "../../src/data/tokens.ts";
import { DataError } from "../../src/errors/errors.ts";
import { openTokens } from "./prepared.ts";

const folder = mkdtempSync(join(tmpdir(), "shunya-loader-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Token i is i, so that a batch says which tokens it holds. */
function counting(count: number): TokenSource & { readonly reads: number[] } {
  const reads: number[] = [];
  return {
    count,
    reads,
    read: async (first, length) => {
      reads.push(first);
      return Int32Array.from({ length }, (_, i) => first + i);
    },
    close: async () => undefined,
    [Symbol.asyncDispose]: async () => undefined,
  };
}

const sampler = (tokenCount: number, seqLength: number, shuffle = false, seed = 42) =>
  new RowSampler(windowPlaces(tokenCount, seqLength), { seed, shuffle });

describe("windows", () => {
  test.each([
    [9, 4, 2],
    [8, 4, 1],
    [5, 4, 1],
    [2, 1, 1],
    [60019, 64, 937],
  ])("%i tokens in windows of %i: %i", (tokenCount, seqLength, windows) => {
    expect(sampler(tokenCount, seqLength).rowCount).toBe(windows);
  });

  test.each([0, 1, 4])("%i tokens are too few for a window of 4", (tokenCount) => {
    expect(() => sampler(tokenCount, 4)).toThrow(DataError);
    expect(() => sampler(tokenCount, 4)).toThrow(new RegExp(`has ${tokenCount} tokens; wanted at least 5`));
  });

  test("in order without shuffling; the next epoch follows the last window", () => {
    const windows = sampler(13, 4);
    expect(Array.from({ length: 7 }, (_, i) => windows.window(i))).toEqual([0, 1, 2, 0, 1, 2, 0]);
  });

  test("shuffled: each epoch holds every window once, in an order of its own", () => {
    const windows = sampler(401, 4, true);
    const epochs = [0, 1, 2].map((epoch) => Array.from({ length: 100 }, (_, i) => windows.window(100 * epoch + i)));
    for (const epoch of epochs)
      expect(epoch.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, i) => i));
    expect(new Set(epochs.map(String)).size).toBe(3);
    // Any sample can be asked for at any time, as a resumed run does.
    expect(sampler(401, 4, true).window(250)).toBe(epochs[2]![50]);
    expect(sampler(401, 4, true, 43).window(0)).not.toBe(sampler(401, 4, true, 42).window(0));
  });
});

describe("batches", () => {
  const loader = (source: TokenSource, rank: number, worldSize = 2, shuffle = false) =>
    new DataLoader({
      rows: new WindowRows(source, 4),
      sampler: sampler(source.count, 4, shuffle),
      microBatch: 3,
      gradientAccumulation: 2,
      worldSize,
      rank,
    });

  test("rank r has the r-th m windows of each global micro-batch, targets one token on", async () => {
    const source = counting(4 * 24 + 1);
    const batch = await loader(source, 1).batch(1, 1);
    // B = 12, N*m = 6: windows 12 + 6 + 3 = 21, 22, 23.
    expect(batch.firstSample).toBe(21);
    expect([...batch.inputs]).toEqual(Array.from({ length: 12 }, (_, i) => 84 + i));
    expect([...batch.targets]).toEqual(Array.from({ length: 12 }, (_, i) => 85 + i));
  });

  test("an epoch border inside a batch: no window wraps", async () => {
    const { inputs, targets } = await loader(counting(4 * 5 + 1), 1).batch(0, 0);
    expect([...inputs]).toEqual([12, 13, 14, 15, 16, 17, 18, 19, 0, 1, 2, 3]);
    expect([...targets]).toEqual([13, 14, 15, 16, 17, 18, 19, 20, 1, 2, 3, 4]);
  });

  test("worlds of 1, 2, 3 and 6 with one global batch see the same samples", async () => {
    const seen = new Map<number, string>();
    for (const worldSize of [1, 2, 3, 6]) {
      const microBatch = 6 / worldSize;
      const inputs: number[] = [];
      for (let rank = 0; rank < worldSize; rank++) {
        const source = counting(4 * 100 + 1);
        const options = {
          rows: new WindowRows(source, 4),
          sampler: sampler(401, 4, true),
          microBatch,
          gradientAccumulation: 1,
          worldSize,
          rank,
        };
        inputs.push(...(await new DataLoader(options).batch(7, 0)).inputs);
      }
      seen.set(worldSize, inputs.join());
    }
    expect(new Set(seen.values()).size).toBe(1);
  });

  test("the next batch is read ahead, and only once", async () => {
    const source = counting(4 * 100 + 1);
    const data = loader(source, 0);
    await data.batch(0, 0);
    await data.idle();
    expect(source.reads.map((first) => first / 4)).toEqual([0, 1, 2, 6, 7, 8]);
    const again = loader(source, 0);
    source.reads.length = 0;
    for (const [step, micro] of [
      [0, 0],
      [0, 1],
      [1, 0],
    ] as const)
      await again.batch(step, micro);
    await again.idle();
    expect(source.reads.map((first) => first / 4)).toEqual([0, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19, 20]);
  });

  test("a jump, as a resumed run makes, does not get what was read ahead", async () => {
    const data = loader(counting(4 * 100 + 1), 0);
    await data.batch(0, 0);
    expect((await data.batch(3, 1)).firstSample).toBe(42);
    expect((await data.batch(4, 0)).inputs[0]).toBe(4 * 48);
  });

  test("an error of the batch read ahead comes when that batch is asked for", async () => {
    const path = join(folder, "tokens.bin");
    writeFileSync(path, new Uint8Array(2 * (4 * 24 + 1)));
    await using source = await openTokens([path], { vocabularySize: 10 });
    truncateSync(path, 2 * 13); // the first batch and no more
    const data = loader(source, 0);
    await data.batch(0, 0);
    await new Promise((resolve) => setTimeout(resolve, 20)); // an error nobody waited for would end the process here
    await expect(data.batch(0, 1)).rejects.toThrow(/tokens\.bin ends at byte \d+/);
    await data.idle();
  });
});

test("the oracle's tokens in its order: window i is tokens 64 i to 64 i + 64", async () => {
  const path = new URL("../oracles/gpt2-tiny/tokens.bin", import.meta.url).pathname;
  await using source = await openTokens([path], { vocabularySize: 256 });
  expect(source.count).toBe(60019);
  const windows = new RowSampler(windowPlaces(source.count, 64), { seed: 42, shuffle: false });
  const data = new DataLoader({
    rows: new WindowRows(source, 64),
    sampler: windows,
    microBatch: 4,
    gradientAccumulation: 1,
    worldSize: 2,
    rank: 1,
  });
  const { inputs, targets, firstSample } = await data.batch(2, 0);
  expect(firstSample).toBe(20);
  expect([...inputs.subarray(64, 128)]).toEqual([...(await source.read(21 * 64, 64))]);
  expect([...targets.subarray(64, 128)]).toEqual([...(await source.read(21 * 64 + 1, 64))]);
  await data.idle();
});
