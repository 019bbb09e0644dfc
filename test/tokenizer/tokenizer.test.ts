// What can be opened as a tokenizer, and what is said where it cannot. Ids are checked against the original library elsewhere.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { byteTokenizer, openTokenizer, type Tokenizer } from "../../src/tokenizer/tokenizer.ts";

/** "ab" is a token, and so are the three bytes of the Devanagari vowel sign ा (0xE0 0xA4 0xBE) one by one. */
const vocab = { a: 0, b: 1, ab: 2, à: 3, "¤": 4, "¾": 5, Ġ: 6 };
const json = {
  version: "1.0",
  added_tokens: [{ id: 9, content: "<end>", special: true, normalized: false }],
  normalizer: null,
  pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
  post_processor: null,
  decoder: { type: "ByteLevel" },
  model: { type: "BPE", vocab, merges: [["a", "b"]] },
};

const root = mkdtempSync(join(tmpdir(), "shunya-tokenizer-"));
afterAll(() => rmSync(root, { recursive: true }));

function folder(files: Record<string, unknown>): string {
  const path = mkdtempSync(join(root, "folder-"));
  for (const [name, content] of Object.entries(files))
    writeFileSync(join(path, name), typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

function open(change: object, settings?: unknown): Promise<Tokenizer> {
  const files = {
    "tokenizer.json": { ...json, ...change },
    ...(settings ? { "tokenizer_config.json": settings } : {}),
  };
  return openTokenizer(folder(files));
}

describe("bytes", () => {
  test("every text comes back", () => {
    for (const text of ["", "abc", "भारत", "\uFEFF\u0000🙂"]) {
      const ids = byteTokenizer.encode(text);
      expect([...ids]).toEqual([...Buffer.from(text)]);
      expect(byteTokenizer.decode(ids)).toBe(text);
    }
    expect(byteTokenizer).toMatchObject({ vocabularySize: 256, endOfText: undefined, name: "bytes" });
    expect(() => byteTokenizer.decode([256])).toThrow(/token id 256 is no byte; wanted 0 to 255/);
  });

  test("a stream gives whole characters", () => {
    const stream = byteTokenizer.stream();
    expect([...byteTokenizer.encode("aभ")].map((id) => stream.push(id))).toEqual(["a", "", "", "भ"]);
    stream.push(0xe0);
    expect(stream.end()).toBe("\uFFFD");
  });
});

describe("a tokenizer.json", () => {
  test("encodes, decodes and names its end of text", async () => {
    const tokenizer = await open({}, { eos_token: { content: "<end>" } });
    expect([...tokenizer.encode("ab ba<end>")]).toEqual([2, 6, 1, 0, 9]);
    expect(tokenizer.decode([2, 6, 1, 0, 9])).toBe("ab ba<end>");
    expect(tokenizer.decode([2, 9], { skipSpecialTokens: true })).toBe("ab");
    expect(tokenizer.encode("")).toEqual(new Uint32Array());
    expect(tokenizer.decode([])).toBe("");
    expect(tokenizer).toMatchObject({ vocabularySize: 10, endOfText: 9 });
    expect([tokenizer.idOf("ab"), tokenizer.idOf("ba"), tokenizer.tokenOf(6), tokenizer.tokenOf(7)]).toEqual([
      2,
      undefined,
      "Ġ",
      undefined,
    ]);
    expect(() => tokenizer.decode([0, 7])).toThrow(/token id 7 is not in .*tokenizer.json; wanted ids below 10/);
  });

  test("of an old version does not say what it is", async () => {
    const { type: _, ...model } = json.model;
    expect([...(await open({ model })).encode("ab ba")]).toEqual([2, 6, 1, 0]);
    const unigram = {
      vocab: [
        ["<unk>", 0],
        ["a", -1],
        ["ab", -1.5],
      ],
      unk_id: 0,
    };
    expect([...(await open({ model: unigram, pre_tokenizer: null, decoder: null })).encode("aba")]).toEqual([2, 1]);
  });

  test("is found in a folder or named itself; without settings a usual end of text counts", async () => {
    const end = { id: 7, content: "<|endoftext|>", special: true };
    const path = folder({ "tokenizer.json": { ...json, added_tokens: [end] } });
    expect((await openTokenizer(join(path, "tokenizer.json"))).endOfText).toBe(7);
    expect((await openTokenizer(path)).endOfText).toBe(7);
    expect((await open({})).endOfText).toBeUndefined();
  });

  test("a stream gives a character with its last token", async () => {
    const stream = (await open({})).stream();
    expect([2, 3, 4, 5, 6, 0].map((id) => stream.push(id))).toEqual(["ab", "", "", "ा", " ", "a"]);
    expect([stream.push(3), stream.end(), stream.end()]).toEqual(["", "\uFFFD", ""]);
  });
});

describe("refused, with the file and what is wrong", () => {
  const refusal = (path: string): Promise<string> =>
    openTokenizer(path).then(
      () => "opened",
      (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
    );

  test.each([
    ["no JSON", "{", /^MODEL: .*tokenizer.json is not JSON: /],
    ["another thing", [], /^MODEL: .*tokenizer.json has no "model"; wanted a tokenizer.json$/],
    [
      "an unknown model",
      { ...json, model: { type: "Guess", vocab } },
      /model type: found "Guess"; wanted BPE, WordPiece/,
    ],
    ["no vocabulary", { ...json, model: { type: "BPE", merges: [] } }, /model has no "vocab"/],
    ["no merges", { ...json, model: { type: "BPE", vocab } }, /model has no "merges"/],
    [
      "a vocabulary of another kind",
      { ...json, model: { ...json.model, vocab: ["a"] } },
      /vocab: found a list; wanted an object/,
    ],
    [
      "a merge of one",
      { ...json, model: { ...json.model, merges: ["a b", "a"] } },
      /merges\[1\]: found "a"; wanted two tokens/,
    ],
    ["a merge of a number", { ...json, model: { ...json.model, merges: [["a", 1]] } }, /merges\[0\]: found \["a",1\]/],
    [
      "an id beyond 32 bits",
      { ...json, model: { ...json.model, vocab: { a: 4e9 } } },
      /token "a": found id 4000000000; wanted a whole number from 0/,
    ],
    ["odd added tokens", { ...json, added_tokens: [{ id: -1, content: "x" }] }, /added_tokens: wanted a list/],
    [
      "odd ids",
      { ...json, model: { ...json.model, vocab: { a: 0.5 } } },
      /token "a": found id 0.5; wanted a whole number/,
    ],
    [
      "a part that fails in use",
      { ...json, post_processor: { type: "TemplateProcessing", single: [null] } },
      /cannot be used as a tokenizer/,
    ],
    ["an unknown part", { ...json, pre_tokenizer: { type: "Odd" } }, /cannot be used as a tokenizer: .*Odd/],
  ])("%s", async (_, content, message) => {
    expect(await refusal(folder({ "tokenizer.json": content }))).toMatch(message);
  });

  test("no file, no tokenizer, other forms, odd settings", async () => {
    const path = folder({ "vocab.json": "{}" });
    expect(await refusal(join(path, "nothing"))).toMatch(/^MODEL: .*nothing: no such file or folder/);
    expect(await refusal(path)).toMatch(/has its tokenizer in vocab.json; wanted tokenizer.json/);
    mkdirSync(join(path, "tokenizer.json"));
    expect(await refusal(folder({}))).toMatch(/has no tokenizer.json/);
    const files = { "tokenizer.json": json };
    expect(await refusal(folder({ ...files, "tokenizer_config.json": "[]" }))).toMatch(
      /tokenizer_config.json holds no/,
    );
    expect(await refusal(folder({ ...files, "tokenizer_config.json": { eos_token: "</s>" } }))).toMatch(
      /name <\/s> as eos_token, which it has not/,
    );
  });
});
