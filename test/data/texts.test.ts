// Texts of every format, each once, with the report that training gives.
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { readTexts, type TextOptions } from "../../src/data/texts.ts";
import { DataFolder } from "./prepared.ts";

const data = new DataFolder();
const parquet = join(import.meta.dirname, "../oracles/parquet");

async function read(args: readonly string[], options: Partial<TextOptions> = {}) {
  const texts: string[] = [];
  const onText = (text: string): void => void texts.push(text);
  const notices = await readTexts(args, { textField: "text", longest: 100, onText, ...options });
  return { texts, notices: notices.join("\n").replaceAll(`${data.path}/`, "") };
}

/** As make_data.py writes them. */
const rows = Array.from({ length: 300 }, (_, i) => `document ${i}: शून्य${" and more".repeat(i % 5)}`);

const refusal = (args: readonly string[]): Promise<string> =>
  read(args).then(
    () => "nothing was refused",
    (error: Error) => error.message.replaceAll(`${data.path}/`, ""),
  );

test("folders, packed files, JSONL and text in order, with what was odd", async () => {
  data.file("mixed/a.txt", "one\r\ntwo");
  data.file("mixed/b.jsonl.gz", gzipSync('{"text":"three"}\n{"body":"four"}\noops\n{"text":"five"}\n'));
  data.file("mixed/c.txt", "");
  data.file("mixed/d.csv", "x");
  expect(await read([data.at("mixed"), join(parquet, "zstd.parquet")])).toEqual({
    texts: ["one\ntwo", "three", "five", ...rows],
    notices: [
      "odd data in mixed:",
      "left out: 1 line that is not JSON: mixed/b.jsonl.gz:3",
      "left out: 1 document without the text field: mixed/b.jsonl.gz:2",
      "left out: 1 empty file: mixed/c.txt",
      "left out: 1 file of another kind: mixed/d.csv",
      "1 line end \\r\\n (read as \\n): mixed/a.txt:1",
    ].join("\n  "),
  });
  const other = await read([data.at("mixed/b.jsonl.gz")], { textField: "body" });
  expect(other.texts).toEqual(["four"]);
});

test("what is no text is refused before anything is read", async () => {
  const text = data.file("a.txt", "a");
  expect(await refusal([text, data.file("b.bin", "ab")])).toMatch(/^b\.bin holds token ids; wanted text, JSONL/);
  expect(await refusal([`${text}:0.5`])).toMatch(/a\.txt has a weight, and weights are for .*leave :0\.5 out$/);
  expect(await refusal([text, data.at("none.txt")])).toBe("none.txt: no such file; check --data");
  expect(await refusal([text, data.file("c.txt", Uint8Array.of(0xff, 0xfe))])).toMatch(/c\.txt is not UTF-8 text/);
});
