// Parquet files as pyarrow writes them (test/oracles/make_data.py).
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { DataFolder } from "./prepared.ts";

const data = new DataFolder();
const folder = fileURLToPath(new URL("../oracles/parquet", import.meta.url));
const oracle = (name: string): string => join(folder, `${name}.parquet`);
/** Under the test's folder, so that messages are short. */
const copy = (name: string): string => data.file(`${name}.parquet`, readFileSync(oracle(name)));

test.each(["none", "snappy", "zstd", "gzip", "lz4", "brotli"])(
  "%s: the rows of all row groups in order",
  async (name) => {
    const texts = Array.from({ length: 300 }, (_, i) => `document ${i}: शून्य${" and more".repeat(i % 5)}\n`);
    expect(await data.read([oracle(name)])).toEqual({ text: texts.join(""), notices: "" });
  },
);

test("rows without a text are left out and counted", async () => {
  const { text, notices } = await data.read([copy("odd")]);
  expect(text).toBe("a\nb\n");
  expect(notices).toBe(
    "odd data in odd.parquet:\n  left out: 1 document whose text is none: odd.parquet:2 (null)\n" +
      "  left out: 1 document whose text is empty: odd.parquet:3",
  );
});

test("bytes that are not UTF-8 do not become other text silently", async () => {
  const { text, notices } = await data.read([copy("bytes")]);
  expect(text).toBe("fine\nend\n");
  expect(notices).toMatch(/left out: 1 record that is not UTF-8: bytes\.parquet:2$/);
});

test("what is no table of texts is refused", async () => {
  expect(await data.refusal([copy("odd")], { textField: "body" })).toBe(
    'odd.parquet has no column "body"; its columns are text, number, list: name the one with the text with --text-field',
  );
  expect(await data.refusal([copy("odd")], { textField: "number" })).toMatch(/a column "number" that is not text/);
  expect(await data.refusal([copy("odd")], { textField: "list" })).toMatch(/a column "list" that is not text/);
  expect(await data.refusal([copy("empty")])).toMatch(/empty\.parquet has no rows/);
  expect(await data.refusal([data.file("nothing.parquet", "")])).toMatch(/nothing\.parquet is empty/);
  expect(await data.refusal([data.file("text.parquet", "plain text")])).toMatch(/cannot be read as Parquet/);
  const whole = readFileSync(oracle("snappy"));
  expect(await data.refusal([data.file("cut.parquet", whole.subarray(0, 4000))])).toMatch(/cannot be read as Parquet/);
  const damaged = Buffer.from(readFileSync(oracle("gzip")));
  damaged.fill(0xff, 600, 700);
  expect(await data.refusal([data.file("damaged.parquet", damaged)])).toMatch(
    /damaged\.parquet cannot be read as Parquet/,
  );
  expect(await data.refusal([data.at("missing.parquet")])).toMatch(/missing\.parquet: no such file/);
  expect(await data.refusal([data.file("a.parquet.gz", "x")])).toMatch(/Parquet file that was packed as a whole/);
});
