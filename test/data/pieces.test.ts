// Long documents in pieces: all of the text, cut where tokenizers cut too, and never in the middle of a character.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { DocumentPiece } from "../../src/data/documents.ts";
import { piecesOf } from "../../src/data/pieces.ts";
import { wordsOf } from "../../src/tokenizer/pattern.ts";

async function* documents(...given: readonly (readonly [text: string, isLast: boolean])[]) {
  for (const [text, isLast] of given) yield { text, isLast, file: "f", line: 1 };
}

async function collect(pieces: AsyncIterable<DocumentPiece>): Promise<[text: string, isLast: boolean][]> {
  const found: [string, boolean][] = [];
  for await (const { text, isLast } of pieces) found.push([text, isLast]);
  return found;
}

test.each([
  ["before a space between two letters", "one two! 3 4", 10, ["one", " two! 3 4"]],
  ["else after a line that text follows", "1,\n2,\n\n3", 7, ["1,\n", "2,\n\n3"]],
  ["else between characters", "🙂🙂🙂", 3, ["🙂", "🙂", "🙂"]],
  ["letters beyond the first plane are letters", "𐐀 𐐀 1.", 6, ["𐐀", " 𐐀 1."]],
  ["what is short stays whole", "a b\nc", 5, ["a b\nc"]],
])("%s", async (_, text, longest, wanted) => {
  const found = await collect(piecesOf(documents([text, true]), longest));
  expect(found).toEqual(wanted.map((piece, i) => [piece, i === wanted.length - 1]));
});

test("where pieces end does not depend on how a document comes, and documents stay apart", async () => {
  const whole = await collect(piecesOf(documents(["one two three", true], ["b", true]), 8));
  expect(whole).toEqual([
    ["one", false],
    [" two", false],
    [" three", true],
    ["b", true],
  ]);
  const cut = documents(["one t", false], ["wo three", false], ["", true], ["b", true]);
  expect((await collect(piecesOf(cut, 8))).map(([text]) => text)).toEqual(["one", " two", " three", "b"]);
});

test("the pieces are the text, and where they end at a good place the words are those of the text", async () => {
  const unit = fc.constantFrom("a", "e", " ", "\n", "\r\n", "भ", "ा", "🙂", "1", "!");
  const whole = fc.asyncProperty(
    fc.string({ unit, size: "medium" }),
    fc.integer({ min: 2, max: 20 }),
    async (text, longest) => {
      const pieces = (await collect(piecesOf(documents([text, true]), longest))).map(([piece]) => piece);
      expect(pieces.join("")).toBe(text);
      const good = pieces.every(
        (piece, i) => i === 0 || /^ \p{L}/u.test(piece) || (/^\S/.test(piece) && /\S\n$/.test(pieces[i - 1]!)),
      );
      if (good) expect(pieces.flatMap((piece) => [...wordsOf(piece)])).toEqual([...wordsOf(text)]);
      for (const piece of pieces.slice(0, -1)) expect(piece.length).toBeLessThanOrEqual(longest);
    },
  );
  await fc.assert(whole, { numRuns: 500 });
});
