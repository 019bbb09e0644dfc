// What is held out is the end of each source, every token once, read from the same files.
import { expect, test } from "vitest";
import type { PreparedSource } from "../../src/data/prepare.ts";
import { splitOff } from "../../src/data/split.ts";
import { openRanges } from "../../src/data/tokens.ts";
import { DataFolder } from "./prepared.ts";

const data = new DataFolder();

async function read(sources: readonly PreparedSource[]): Promise<string[]> {
  const texts: string[] = [];
  for (const { ranges, tokens } of sources) {
    await using source = await openRanges(ranges, { vocabularySize: 256 });
    expect(source.count).toBe(tokens);
    texts.push(String.fromCharCode(...(await source.read(0, source.count))));
  }
  return texts;
}

test("the last share of each source, rounded down to whole tokens, across its files", async () => {
  data.file("parts/1.txt", "abcdef");
  data.file("parts/2.bin", Uint8Array.from([..."ghij"].flatMap((letter) => [letter.charCodeAt(0), 0])));
  const { sources } = await data.prepare([data.at("parts"), data.file("x.txt", "\uFEFFuvwxyz")]);
  const split = (share: number) => {
    const { training, validation } = splitOff(sources, share);
    return Promise.all([read(training), read(validation)]);
  };
  expect(await split(0.5)).toEqual([
    ["abcde", "uvw"],
    ["fghij", "xyz"],
  ]);
  expect(await split(0.2)).toEqual([
    ["abcdefgh", "uvwxy"],
    ["ij", "z"],
  ]);
  expect(await split(0.15)).toEqual([
    ["abcdefghi", "uvwxyz"],
    ["j", ""],
  ]);
});
