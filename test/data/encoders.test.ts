// Workers give what one thread gives, in the same order, and their failures have places.
import { expect, test } from "vitest";
import { DataFolder } from "./prepared.ts";
import { wordTokenizer } from "./word-tokenizer.ts";

const data = new DataFolder();
const module = new URL("./word-tokenizer.ts", import.meta.url).href;
const words = { tokenizer: wordTokenizer, vocabularySize: 1000 };
const lengths = Array.from({ length: 20_000 }, (_, i) => 1 + ((i * 7919) % 900));
/** Above the size from which on workers are used. */
const lines = lengths.map((length, i) => JSON.stringify({ text: `${"x".repeat(length)} ${"y ".repeat(i % 50)}` }));
const path = data.file("many.jsonl", lines.map((line) => `${line}\n`).join(""));

test("the tokens are the same and in order", async () => {
  const alone = await data.tokens([path], words);
  const tokenizerModule = { module, argument: "boom" };
  const together = await data.tokens([path], { ...words, tokenizerModule, cacheFolder: data.at(".workers") });
  expect(together).toEqual(alone);
  expect(together.tokens.slice(0, 4)).toEqual([1, 0, lengths[1], 1]);
});

test("a text that the tokenizer cannot take is named; one that cannot be opened is told", async () => {
  const bad = data.file("bad.jsonl", `${lines.join("\n").replace('"xxxxxxx', '"boom xxx')}\n`);
  const line = lengths.findIndex((length) => length >= 7) + 1;
  const options = { ...words, cacheFolder: data.at(".bad") };
  expect(await data.refusal([bad], { ...options, tokenizerModule: { module, argument: "boom" } })).toBe(
    `bad.jsonl:${line} cannot be encoded: cannot take boom`,
  );
  expect(await data.refusal([bad], { ...options, tokenizerModule: { module, argument: "everything" } })).toBe(
    "the tokenizer failed: no such tokenizer",
  );
});
