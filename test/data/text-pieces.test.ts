// A text file in pieces: all of it, in whole lines where there are any, and never in the middle of a character.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { textPieces } from "../../src/data/text-pieces.ts";

const folder = mkdtempSync(join(tmpdir(), "shunya-pieces-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function pieces(content: string | Uint8Array, pieceBytes: number): Promise<string[]> {
  const path = join(folder, "text.txt");
  writeFileSync(path, content);
  const found: string[] = [];
  let at: number | undefined;
  for await (const { text, firstByte, bytes } of textPieces(path, pieceBytes)) {
    expect(at ?? firstByte).toBe(firstByte);
    expect(bytes).toBe(Buffer.byteLength(text));
    at = firstByte + bytes;
    found.push(text);
  }
  return found;
}

test.each([
  ["a line that text follows", "one\ntwo\n\n\nx", 10, ["one\n", "two\n\n\nx"]],
  ["else another line end", "ab \n cde", 6, ["ab \n", " cde"]],
  ["else a character", "भारत", 7, ["भा", "रत"]],
  ["a byte order mark at the start is none of it", "\uFEFFab", 10, ["ab"]],
  ["nothing", "", 10, []],
])("%s", async (_, text, pieceBytes, wanted) => {
  expect(await pieces(text, pieceBytes)).toEqual(wanted);
});

test("the pieces are the text", async () => {
  const unit = fc.constantFrom("a", " ", "\n", "\r\n", "भ", "🙂");
  const whole = fc.asyncProperty(fc.string({ unit }), fc.integer({ min: 4, max: 20 }), async (text, pieceBytes) => {
    expect((await pieces(text, pieceBytes)).join("")).toBe(text);
  });
  await fc.assert(whole, { numRuns: 200 });
});

test("what is no UTF-8 is named with its place", async () => {
  await expect(pieces(Uint8Array.of(0x61, 0x0a, 0x62, 0xff), 3)).rejects.toThrow(/byte 0xff at offset 3; save it as/);
  await expect(pieces(Uint8Array.of(0x61, 0xe0, 0xa4), 10)).rejects.toThrow(/byte 0xe0 at offset 1/);
});
