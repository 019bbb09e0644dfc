// Every oddity of data has one answer, said with file and place: the table of docs/data.md.
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { linesOf } from "../../src/data/lines.ts";
import { DataFolder } from "./prepared.ts";
import { wordTokenizer } from "./word-tokenizer.ts";

const data = new DataFolder();
const jsonl = (...lines: string[]): string => lines.map((line) => `${line}\n`).join("");
const notUtf8 = Uint8Array.of(...Buffer.from('{"text":"caf'), 0xe9, ...Buffer.from('"}\n{"text":"b"}\n'));

describe("JSONL: a bad line costs that line", () => {
  test.each<[what: string, content: string | Uint8Array, text: string, notice: RegExp | undefined]>([
    ["plain", jsonl('{"text":"a"}', '{"text":"b","id":1}'), "a\nb\n", undefined],
    ["the last line without its end", '{"text":"a"}\n{"text":"b"}', "a\nb\n", undefined],
    ["line ends of Windows", '{"text":"a"}\r\n{"text":"b"}\r\n', "a\nb\n", undefined],
    ["\\r\\n inside a text is the text's own", jsonl('{"text":"a\\r\\nb"}'), "a\r\nb\n", undefined],
    ["a NUL inside a text is a character", jsonl('{"text":"A\\u0000B"}'), "A\0B\n", undefined],
    ["a byte order mark", `\uFEFF${jsonl('{"text":"a"}')}`, "a\n", /1 byte order mark \(left out\): case\.jsonl:1$/],
    ["blank lines", jsonl("", '{"text":"a"}', "  "), "a\n", /left out: 2 blank lines: case\.jsonl:1, case\.jsonl:3$/],
    ["no JSON", jsonl('{"text":"a"}', "oops"), "a\n", /left out: 1 line that is not JSON: case\.jsonl:2$/],
    ["a broken last line", '{"text":"a"}\n{"text":"b', "a\n", /1 last line that is cut off: case\.jsonl:2$/],
    ["raw NULs", '{"text":"a"}\n\0\0\0\n', "a\n", /1 line that is not JSON: case\.jsonl:2 \(NUL bytes\)$/],
    ["not UTF-8", notUtf8, "b\n", /left out: 1 record that is not UTF-8: case\.jsonl:1$/],
    ["a list", jsonl('["a"]', '{"text":"b"}'), "b\n", /1 line that is not a JSON object: case\.jsonl:1 \(a list\)$/],
    [
      "another field",
      jsonl('{"texts":"a"}', '{"text":"b"}'),
      "b\n",
      /1 document without the text field: case\.jsonl:1$/,
    ],
    ["an empty text", jsonl('{"text":""}', '{"text":"b"}'), "b\n", /1 document whose text is empty: case\.jsonl:1$/],
    [
      "mixed types",
      jsonl('{"text":1}', '{"text":null}', '{"text":["a"]}', '{"text":{}}', '{"text":"b"}'),
      "b\n",
      /4 documents whose text is none: case\.jsonl:1 \(a number\), case\.jsonl:2 \(null\), case\.jsonl:3 \(a list\), \.\.\.$/,
    ],
    [
      "messages, or a prompt and a completion, beside the text",
      jsonl('{"text":"a","messages":[]}', '{"text":"b","prompt":"c","completion":"d"}', '{"text":"c","prompt":"d"}'),
      "a\nb\nc\n",
      / 2 documents with messages, or prompt and completion, beside their text \(the text alone is read\): case\.jsonl:1, case\.jsonl:2$/,
    ],
    [
      "half a surrogate pair",
      jsonl('{"text":"a\\ud800b"}'),
      "a\uFFFDb\n",
      /1 document with half of a surrogate pair \(read as U\+FFFD\): case\.jsonl:1$/,
    ],
  ])("%s", async (_, content, text, notice) => {
    const found = await data.read([data.file("case.jsonl", content)]);
    expect(found.text).toBe(text);
    if (notice === undefined) expect(found.notices).toBe("");
    else expect(found.notices).toMatch(notice);
  });

  test("a line of 100 MB is a document like others, in linear time", async () => {
    const word = "शून्य ";
    const count = Math.ceil(100e6 / Buffer.byteLength(word));
    const path = data.file("long.jsonl", `{"text":"${word.repeat(count)}"}\n{"text":"short"}\n`);
    const begin = performance.now();
    const prepared = await data.prepare([path]);
    expect(prepared.sources[0]!.tokens).toBe(count * Buffer.byteLength(word) + "\nshort\n".length);
    expect(prepared.notices).toEqual([]);
    expect((performance.now() - begin) / 1000).toBeLessThan(60);
  }, 120_000);

  test("a line above the bound is passed over in constant memory, the next one is read", async () => {
    async function* chunks() {
      for (const text of ["ab", "c\nlonger than", " ten bytes\n", "d\n", "e"]) yield Buffer.from(text);
    }
    const lines = [];
    for await (const { bytes, number, isEnded } of linesOf(chunks(), 10))
      lines.push([bytes?.toString(), number, isEnded]);
    expect(lines).toEqual([
      ["abc", 1, true],
      [undefined, 2, true],
      ["d", 3, true],
      ["e", 4, false],
    ]);
  });

  test("no text at all is refused, and the message says what is there", async () => {
    const wrong = data.file("wrong.jsonl", jsonl("", '{"content":"a","id":7}', "oops"));
    expect(await data.refusal([wrong])).toBe(
      'wrong.jsonl has no document with a text in field "text"; the first problem: an object with the fields content, id, in line 2; ' +
        "name the field with --text-field",
    );
    expect((await data.read([wrong], { textField: "content" })).text).toBe("a\n");
    expect(await data.refusal([data.file("nothing.jsonl", "")])).toMatch(/nothing\.jsonl is empty; wanted JSONL/);
    expect(await data.refusal([data.file("blank.jsonl", "\n\n")])).toMatch(/has no document with a text/);
  });
});

describe("text is one document, kept as it is or refused", () => {
  test("line ends of Windows give the tokens of others", async () => {
    const lines = "one\ntwo\n\nthree";
    const found = await data.read([data.file("crlf.txt", lines.replaceAll("\n", "\r\n"))]);
    expect(found.text).toBe(lines);
    expect(found.notices).toMatch(/3 line ends \\r\\n \(read as \\n\): crlf\.txt:1$/);
  });

  test("a \\r alone is kept and told of; \\r\\n across two chunks is one line end", async () => {
    const text = `${"x".repeat((1 << 20) - 1)}\r\ny\rz`;
    const found = await data.read([data.file("mac.txt", text)]);
    expect(found.text).toBe(text.replace("\r\n", "\n"));
    expect(found.notices).toMatch(/1 \\r without \\n \(kept\): mac\.txt:2/);
    expect(found.notices).toMatch(/1 line end \\r\\n/);
  });

  test("a byte order mark is left out and told of once", async () => {
    const found = await data.read([data.file("mark.txt", "\uFEFFab\uFEFF")]);
    expect(found).toEqual({
      text: "ab\uFEFF",
      notices: "odd data in mark.txt:\n  1 byte order mark (left out): mark.txt:1",
    });
    expect(await data.refusal([data.file("only-mark.txt", "\uFEFF")])).toMatch(/is empty/);
  });

  test("NULs are bytes like others; a block of them is damage, told of with its offset", async () => {
    const text = `a\0b${"\0".repeat(4096)}c`;
    const found = await data.read([data.file("nul.txt", text)]);
    expect(found.text).toBe(text);
    expect(found.notices).toMatch(/1 NUL byte \(kept\): nul\.txt at byte 1/);
    expect(found.notices).toMatch(
      /1 block of NUL bytes \(kept; the file looks damaged\): nul\.txt at byte 3 \(4096 of them\)/,
    );
    expect(await data.refusal([data.file("nuls.txt", "\0".repeat(4096))])).toMatch(/nothing but NUL bytes/);
  });

  test("what is not UTF-8 is refused with its place, packed or not", async () => {
    const latin1 = Uint8Array.of(...Buffer.from("caf"), 0xe9, 0x20);
    expect(await data.refusal([data.file("latin1.txt", latin1)])).toMatch(/latin1\.txt is not UTF-8.*0xe9 at offset 3/);
    expect(await data.refusal([data.file("latin1.txt.gz", gzipSync(latin1))])).toMatch(/0xe9 at offset 3/);
    const cut = Buffer.from("अ").subarray(0, 2);
    expect(await data.refusal([data.file("cut.txt.gz", gzipSync(cut))])).toMatch(/0xe0 at offset 0/);
    const utf16 = Buffer.from("\uFEFFtext", "utf16le");
    expect(await data.refusal([data.file("utf16.txt.gz", gzipSync(utf16))])).toMatch(/it looks like UTF-16/);
  });

  test("empty files: refused where they are named, left out where they are found", async () => {
    expect(await data.refusal([data.file("empty.txt", "")])).toMatch(/empty\.txt is empty; wanted text/);
    expect(await data.refusal([data.file("empty.txt.gz", gzipSync(""))])).toMatch(/is empty/);
    data.file("some/a.txt", "");
    data.file("some/b.txt", "text");
    data.file("some/c.jsonl", "");
    const found = await data.read([data.at("some")]);
    expect(found.text).toBe("text");
    expect(found.notices).toMatch(/left out: 2 empty files: some\/a\.txt, some\/c\.jsonl$/);
    data.file("none/a.txt", "");
    expect(await data.refusal([data.at("none")])).toMatch(/a\.txt and the files beside it are all empty/);
  });
});

describe("documents have borders", () => {
  test("an end-of-text token after each, where the tokenizer has one", async () => {
    const paths = [data.file("w.jsonl", jsonl('{"text":"a bb"}', '{"text":"ccc"}')), data.file("w.txt", "dddd e\n")];
    const words = { tokenizer: wordTokenizer, vocabularySize: 1000 };
    expect((await data.tokens(paths, words)).tokens).toEqual([1, 2, 0, 3, 0, 4, 1, 0]);
  });

  test("no word of a long text is cut in two, and none is lost", async () => {
    const text = Array.from({ length: 200_000 }, (_, i) => "abcdefg".slice(0, 1 + (i % 7))).join(" ");
    const { tokens } = await data.tokens([data.file("words.txt", text)], {
      tokenizer: wordTokenizer,
      vocabularySize: 1000,
    });
    expect(tokens).toEqual([...Array.from({ length: 200_000 }, (_, i) => 1 + (i % 7)), 0]);
  });

  test("ids beyond the model's vocabulary are refused before anything starts", async () => {
    const path = data.file("wide.txt", "aaaa");
    expect(await data.refusal([data.file("wide.jsonl", '{"text":"é"}\n')], { vocabularySize: 128 })).toMatch(
      /wide\.jsonl has token id 195; wanted ids below 128/,
    );
    expect(await data.refusal([path], { tokenizer: wordTokenizer, vocabularySize: 4 })).toMatch(
      /the tokenizer words has 1000 tokens, and the model's vocabulary ends at 4/,
    );
  });
});
