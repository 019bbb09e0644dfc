// Merging on numbers gives what the library gives, for the vocabularies of the oracles.
import { readFileSync } from "node:fs";
import { Tokenizer as Library } from "@huggingface/tokenizers";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type BpeModel, BytePairs, characters } from "../../src/tokenizer/byte-pairs.ts";

type Model = BpeModel & ((words: readonly string[]) => readonly string[]);
type Json = { readonly model: Readonly<Record<string, unknown>> };

const read = (name: string): Json =>
  JSON.parse(readFileSync(new URL(`../oracles/tokenizers/${name}.json`, import.meta.url), "utf8")) as Json;
const modelOf = (json: Json): Model => (new Library(json, {}) as unknown as { model: Model }).model;
const text = readFileSync(new URL("../oracles/tokenizers/text.txt", import.meta.url), "utf8");
const known = text.split(/(?<=\S)(?=\s)/u);

describe.each(["gpt2", "llama3", "qwen", "shunya", "smollm"])("%s", (name) => {
  const model = modelOf(read(name));
  const pairs = BytePairs.of(model)!;
  const byLibrary = (bytes: Uint8Array): number[] =>
    model([characters(bytes)]).map((token) => model.tokens_to_ids.get(token)!);

  test("words, parts of words and random bytes become the library's ids", () => {
    const part = fc.tuple(fc.constantFrom(...known), fc.constantFrom(...known), fc.nat(9), fc.nat(9));
    const mixed = part.map(([a, b, i, j]) => Buffer.from(a.slice(i) + b.slice(0, j)));
    const random = fc.uint8Array({ maxLength: 40 });
    const repeated = fc
      .tuple(fc.constantFrom("a", "ab", "aab", " "), fc.nat(30))
      .map(([s, n]) => Buffer.from(s.repeat(n)));
    const same = fc.property(fc.oneof(mixed, random, repeated), (bytes) => {
      expect(pairs.encode(bytes)).toEqual(byLibrary(bytes));
    });
    fc.assert(same, { numRuns: 1000 });
  });
});

test("a word that is a token is one whatever its merges, where the file wants that", () => {
  const { model } = read("gpt2");
  // No merges lead to it.
  const vocab = { ...(model.vocab as object), Ġqzq: 9999 };
  const bytes = Buffer.from(" qzq");
  const whole = BytePairs.of(modelOf({ ...read("gpt2"), model: { ...model, vocab, ignore_merges: true } }));
  expect(whole!.encode(bytes)).toEqual([9999]);
  expect(BytePairs.of(modelOf({ ...read("gpt2"), model: { ...model, vocab } }))!.encode(bytes)).not.toContain(9999);
});

test("what is more than merges of bytes is left to the library", () => {
  const { model } = read("gpt2");
  const of = (change: object) => BytePairs.of(modelOf({ ...read("gpt2"), model: { ...model, ...change } }));
  expect(of({ byte_fallback: true })).toBeUndefined();
  expect(of({ continuing_subword_prefix: "##" })).toBeUndefined();
  expect(of({ dropout: 0.1 })).toBeUndefined();
  const vocabulary = Object.entries(model.vocab as Record<string, number>);
  expect(of({ vocab: Object.fromEntries(vocabulary.filter(([token]) => token !== "A")) })).toBeUndefined();
  expect(
    of({ vocab: Object.fromEntries(vocabulary.map(([token, id]) => [token, Math.min(id, 400)])) }),
  ).toBeUndefined();
  expect(of({})).toBeDefined();
});
