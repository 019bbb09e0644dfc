// Texts with special tokens become the library's ids, whichever way they are found.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Tokenizer as Library } from "@huggingface/tokenizers";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { AddedTokens } from "../../src/tokenizer/added-tokens.ts";
import { openTokenizer } from "../../src/tokenizer/tokenizer.ts";

const folder = mkdtempSync(join(tmpdir(), "shunya-added-"));
afterAll(() => rmSync(folder, { recursive: true }));

type Json = { readonly added_tokens: readonly object[] };
const read = (name: string): Json =>
  JSON.parse(readFileSync(new URL(`../oracles/tokenizers/${name}.json`, import.meta.url), "utf8")) as Json;

test.each([
  ["qwen", {}],
  ["llama3", {}],
  ["shunya", {}],
  ["qwen", { normalized: true }],
  ["llama3", { lstrip: true }],
])("%s %j", async (name, flags) => {
  const json = read(name);
  const plain = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const added = ["<|end|>", "<|end", "é!"].map((content, i) => ({ id: 9000 + i, content, ...plain, ...flags }));
  const changed = { ...json, added_tokens: [...json.added_tokens, ...added] };
  const path = join(folder, "tokenizer.json");
  writeFileSync(path, JSON.stringify(changed));
  const tokenizer = await openTokenizer(path);
  const library = new Library(changed, {});
  // Decomposed only where it is looked for after normalization: else the library takes a section that is nothing else for the token.
  const composed = "normalized" in flags ? "e\u0301!" : "é!";
  const unit = fc.constantFrom("<|end|>", "<|end", "é!", composed, " ", "\n", "word", "भारत", "12", "<", "|");
  const same = fc.property(fc.string({ unit, size: "medium" }), (text) => {
    expect([...tokenizer.encode(text)]).toEqual(library.encode(text, { add_special_tokens: false }).ids);
  });
  fc.assert(same, { numRuns: 300 });
});

test("the longest of several is found, and what takes space around it is left to the library", () => {
  const tokens = [
    { id: 1, content: "<a" },
    { id: 2, content: "<a>" },
  ];
  expect(new AddedTokens(tokens, false).find("x<a><a")).toEqual([
    { at: 1, length: 3, id: 2 },
    { at: 4, length: 2, id: 1 },
  ]);
  const stripping = new AddedTokens([{ id: 1, content: "<a", rstrip: true }], false);
  expect([stripping.find("x<a"), stripping.find("x")]).toEqual([undefined, []]);
});
