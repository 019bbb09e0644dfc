// Ids and text as Hugging Face's own library has them, written in Rust. make_tokenizers.py beside the values made them.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { wordPattern } from "../../src/tokenizer/pattern.ts";
import { renderTokenizer } from "../../src/tokenizer/render.ts";
import { openTokenizer } from "../../src/tokenizer/tokenizer.ts";
import { endOfText, TokenizerTrainer } from "../../src/tokenizer/train.ts";

interface Row {
  readonly ids: readonly number[];
  /** Ids that come before them where special tokens are added. */
  readonly before?: readonly number[];
  /** Where it is not the text itself. */
  readonly decoded?: string;
}

type Expected = Readonly<Record<string, readonly Row[]>> & {
  readonly texts: readonly string[];
  readonly pattern: string;
};

const file = (name: string): string => fileURLToPath(new URL(`./tokenizers/${name}`, import.meta.url));
const { texts, pattern, ...expected } = JSON.parse(readFileSync(file("expected.json"), "utf8")) as Expected;

describe.each(Object.entries(expected))("%s", async (name, rows) => {
  const tokenizer = await openTokenizer(file(`${name}.json`));

  test("encodes to the same ids", () => {
    expect(rows).toHaveLength(texts.length);
    for (const [i, { ids, before = [] }] of rows.entries()) {
      expect([...tokenizer.encode(texts[i]!)], JSON.stringify(texts[i])).toEqual(ids);
      const around = tokenizer.encode(texts[i]!, { addSpecialTokens: true });
      expect([...around], JSON.stringify(texts[i])).toEqual([...before, ...ids]);
    }
  });

  test("decodes to the same text, at once and as a stream", () => {
    for (const [i, { ids, decoded = texts[i]! }] of rows.entries()) {
      expect(tokenizer.decode(ids)).toBe(decoded);
      const stream = tokenizer.stream();
      expect(ids.map((id) => stream.push(id)).join("") + stream.end()).toBe(decoded);
    }
  });
});

test("training gives the vocabulary and the merges that the library's own trainer gives", () => {
  expect(wordPattern).toBe(pattern);
  const wanted = JSON.parse(readFileSync(file("shunya.json"), "utf8")) as Trained;
  const specialTokens = [endOfText, "<|im_start|>", "<|im_end|>"];
  const trainer = new TokenizerTrainer({ vocabularySize: 490, specialTokens });
  for (const line of readFileSync(file("text.txt"), "utf8").split("\n")) trainer.add(line);
  const { model } = JSON.parse(renderTokenizer(trainer.train())) as Trained;
  expect(model.vocab).toEqual(wanted.model.vocab);
  expect(model.merges).toEqual(wanted.model.merges.map((merge) => (merge as string[]).join(" ")));
});

interface Trained {
  readonly model: { readonly vocab: Record<string, number>; readonly merges: readonly (string | readonly string[])[] };
}
