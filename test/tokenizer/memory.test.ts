// What is remembered of texts is their words and not the texts: V8's views of a text keep all of it.
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { openTokenizer } from "../../src/tokenizer/tokenizer.ts";
import { WordCounts } from "../../src/tokenizer/word-counts.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** With one long word that no other has. */
const text = (i: number): string =>
  Buffer.from(`${"common ".repeat(20_000)}unlikelyword${String.fromCodePoint(0x900 + i)}`).toString();
const texts = 200;
const textsBytes = texts * text(0).length;

function heldBytes(take: (text: string) => void): number {
  take(text(0));
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let i = 1; i <= texts; i++) take(text(i));
  collect();
  return process.memoryUsage().heapUsed - before;
}

test("encoding and counting words keep no texts", async () => {
  const tokenizer = await openTokenizer(fileURLToPath(new URL("../oracles/tokenizers/shunya.json", import.meta.url)));
  expect(heldBytes((given) => tokenizer.encode(given))).toBeLessThan(textsBytes / 4);
  const counts = new WordCounts();
  expect(heldBytes((given) => counts.add(given))).toBeLessThan(textsBytes / 4);
  expect(counts.counts.get("common")).toBe(1 + texts);
});
