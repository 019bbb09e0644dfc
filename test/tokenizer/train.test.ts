// Training a tokenizer: where words are cut, which pairs are merged, and what bounds hold. Equality with the trainer of Hugging
// Face's library is tested with the oracles.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { byteCharacters, tokenBytes } from "../../src/tokenizer/byte-level.ts";
import { learnMerges, type Merge } from "../../src/tokenizer/merges.ts";
import { wordsOf } from "../../src/tokenizer/pattern.ts";
import { TokenizerTrainer } from "../../src/tokenizer/train.ts";
import { WordCounts } from "../../src/tokenizer/word-counts.ts";

describe("words", () => {
  test.each([
    ["भारत की हिन्दी", ["भारत", " की", " हिन्दी"]],
    ["தமிழ் மொழி", ["தமிழ்", " மொழி"]],
    ["क\u094d\u200dष में", ["क\u094d\u200dष", " में"]],
    ['don\'t "stop"', ["don", "'t", ' "', "stop", '"']],
    ["वर्ष २०२४ 12345", ["वर्ष", " ", "२०२", "४", " ", "123", "45"]],
    ["f(x);\n\n  y", ["f", "(x", ");\n\n", " ", " y"]],
    ["a  \n b \r\n", ["a", "  \n", " b", " \r\n"]],
    ["❤\ufe0f👍🏽!", ["❤\ufe0f", "👍🏽!"]],
  ])("%j", (text, words) => {
    expect([...wordsOf(text)]).toEqual(words);
  });

  test("are the text together", () => {
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => [...wordsOf(text)].join("") === text));
  });

  test("the rarest are dropped when there are too many, and counted", () => {
    const counts = new WordCounts({ mostWords: 3 });
    for (const text of ["a a a", "b b", "c"]) counts.add(text);
    expect(Object.fromEntries(counts.counts)).toEqual({ " a": 2, c: 1 });
    expect(counts.droppedOccurrences).toBe(3);
  });
});

test("byte characters are GPT-2's and stand for one byte each", () => {
  expect(new Set(byteCharacters).size).toBe(256);
  expect([0, 0x20, 0x41, 0x7f, 0xad, 0xff].map((byte) => byteCharacters[byte])).toEqual(["Ā", "Ġ", "A", "ġ", "Ń", "ÿ"]);
  expect([...tokenBytes("Ġà¤ķ")!]).toEqual([0x20, 0xe0, 0xa4, 0x95]);
  expect(tokenBytes("<|endoftext|> ")).toBeUndefined();
});

/** The same by counting all pairs anew for every merge. */
function learnSlowly(base: readonly string[], counts: readonly (readonly [string, number])[], size: number): Merge[] {
  const symbols = [...base];
  let words = counts.map(([word, count]) => ({ ids: [...word].map((character) => base.indexOf(character)), count }));
  const merges: Merge[] = [];
  while (symbols.length < size) {
    const pairs = new Map<string, Merge & { count: number }>();
    for (const { ids, count } of words) {
      for (const [i, right] of ids.entries()) {
        if (i === 0) continue;
        const left = ids[i - 1]!;
        const key = `${left} ${right}`;
        pairs.set(key, { left, right, count: (pairs.get(key)?.count ?? 0) + count });
      }
    }
    const [best] = [...pairs.values()].sort((a, b) => b.count - a.count || a.left - b.left || a.right - b.right);
    if (best === undefined || best.count < 2) break;
    const text = symbols[best.left]! + symbols[best.right]!;
    const id = symbols.includes(text) ? symbols.indexOf(text) : symbols.push(text) - 1;
    merges.push({ left: best.left, right: best.right });
    words = words.map(({ ids, count }) => ({ ids: merged(ids, best, id), count }));
  }
  return merges;
}

function merged(ids: readonly number[], { left, right }: Merge, id: number): number[] {
  const result: number[] = [];
  for (let i = 0; i < ids.length; i++) {
    const both = ids[i] === left && ids[i + 1] === right;
    result.push(both ? id : ids[i]!);
    if (both) i++;
  }
  return result;
}

describe("merges", () => {
  test("are those that counting anew gives, runs of one character too", () => {
    const word = fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 1, maxLength: 12 });
    const words = fc.uniqueArray(fc.tuple(word, fc.integer({ min: 1, max: 5 })), {
      selector: ([w]) => w,
      minLength: 1,
    });
    const counting = fc.property(words, fc.integer({ min: 3, max: 30 }), (counts, size) => {
      const learned = learnMerges(["a", "b", "c"], counts, size);
      expect(learned.merges).toEqual(learnSlowly(["a", "b", "c"], counts, size));
    });
    fc.assert(counting, { numRuns: 500 });
  });

  test("end where no pair occurs twice, and the tokens of the text are counted", () => {
    const { symbols, merges, tokens } = learnMerges(
      ["a", "b", "c"],
      [
        ["abab", 1],
        ["c", 7],
        ["cb", 1],
      ],
      100,
    );
    expect(symbols).toEqual(["a", "b", "c", "ab"]);
    expect(merges).toEqual([{ left: 0, right: 1 }]);
    expect(tokens).toBe(2 + 7 + 2);
  });
});

describe("a trainer", () => {
  test("gives special tokens the first ids, then bytes, then merges", () => {
    const trainer = new TokenizerTrainer({ vocabularySize: 260, specialTokens: ["<end>", "<pad>"] });
    trainer.add("भारत भारत");
    const { vocabulary, merges, textBytes, textTokens, words } = trainer.train();
    expect(vocabulary.slice(0, 4)).toEqual(["<end>", "<pad>", "!", '"']);
    expect(vocabulary).toHaveLength(260);
    expect(merges).toEqual([
      ["à", "¤"],
      ["°", "à¤"],
    ]);
    expect({ textBytes, words, textTokens }).toEqual({ textBytes: 25, words: 2, textTokens: 25 - 8 - 2 });
  });

  test.each([
    [{ vocabularySize: 256, specialTokens: ["<end>"] }, /vocabulary of 256 is too small; wanted at least 257/],
    [{ vocabularySize: 999, specialTokens: ["é"] }, /special token "é": wanted two characters or more/],
    [{ vocabularySize: 999, specialTokens: ["<a>", "<a>"] }, /special token <a> is named twice/],
  ])("refuses %j", (options, message) => {
    expect(() => new TokenizerTrainer(options)).toThrow(message);
  });

  test("refuses no text", () => {
    expect(() => new TokenizerTrainer({ vocabularySize: 300, specialTokens: [] }).train()).toThrow(/no text to train/);
  });
});
