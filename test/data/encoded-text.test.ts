// Text files through a tokenizer: tokens by range are those of the pieces encoded one after another.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { openTokens } from "../../src/data/tokens.ts";
import { byteTokenizer, openTokenizer } from "../../src/tokenizer/tokenizer.ts";

const folder = mkdtempSync(join(tmpdir(), "shunya-encoded-"));
afterAll(() => rmSync(folder, { recursive: true }));

const tokenizer = await openTokenizer(fileURLToPath(new URL("../oracles/tokenizers/shunya.json", import.meta.url)));
const { vocabularySize } = tokenizer;

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

test("ranges in any order are parts of the whole, over pieces and files", async () => {
  // Lines that text follows at once: there a tokenizer cuts too, so pieces do not show.
  const first = Array.from({ length: 3000 }, (_, i) => `वाक्य ${i} in two languages.`).join("\n");
  const second = "\uFEFFதமிழ் 🙂\n";
  const paths = [file("first.txt", first), file("second.txt", second)];
  await using source = await openTokens(paths, { vocabularySize, tokenizer });
  const whole = [...tokenizer.encode(first), ...tokenizer.encode(second.slice(1))];
  expect(source.count).toBe(whole.length);
  for (const [from, length] of [
    [0, 1],
    [40_000, 9000],
    [whole.length - 30, 30],
    [3, 0],
    [0, whole.length],
  ] as const)
    expect([...(await source.read(from, length))]).toEqual(whole.slice(from, from + length));
});

test("token files are read as they are, beside text", async () => {
  const paths = [file("tokens.bin", Uint8Array.of(7, 0, 9, 0)), file("text.txt", "ab")];
  await using source = await openTokens(paths, { vocabularySize, tokenizer });
  expect([...(await source.read(0, source.count))]).toEqual([7, 9, ...tokenizer.encode("ab")]);
});

test("refused: a smaller vocabulary, no text, text that has changed", async () => {
  const path = file("changes.txt", "one two three\n".repeat(3000));
  await expect(openTokens([path], { vocabularySize: vocabularySize - 1, tokenizer })).rejects.toThrow(
    /shunya.json has 490 tokens, and the model's vocabulary ends at 489/,
  );
  const bytes = await openTokens([path], { vocabularySize: 200, tokenizer: byteTokenizer });
  expect(bytes.count).toBe(14 * 3000);
  await bytes.close();
  await expect(openTokens([file("empty.txt", "")], { vocabularySize, tokenizer })).rejects.toThrow(
    /empty; wanted text/,
  );
  await using source = await openTokens([path], { vocabularySize, tokenizer });
  file("changes.txt", "x y z\n".repeat(7000));
  await expect(source.read(0, 10)).rejects.toThrow(/changes.txt has changed at byte 0 since it was opened/);
});
