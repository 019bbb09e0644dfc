import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { type ConfigNode, parseConfigFile, parseConfigObject, parseConfigText } from "../../src/config/json.ts";
import { ConfigError } from "../../src/errors/errors.ts";

const folder = mkdtempSync(join(tmpdir(), "shunya-config-"));
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

/** The tree as plain values, to compare with what JSON.parse gives. */
function plain(node: ConfigNode): unknown {
  if (node.kind === "scalar") return node.value;
  if (node.kind === "array") return node.items.map(plain);
  return Object.fromEntries(node.members.map((member) => [member.key, plain(member.value)]));
}

const parse = (text: string) => plain(parseConfigText(text, "ds.json").root);

describe("what DeepSpeed's reader accepts", () => {
  test("comments of three kinds and trailing commas", () => {
    const text = `{ // one
      # two "with" quotes { [
      "a": 1, /* three
      lines */ "b": [1, 2,], # four
      "url": "http://x/#y", "hash": "# no comment",
    }`;
    expect(parse(text)).toEqual({ a: 1, b: [1, 2], url: "http://x/#y", hash: "# no comment" });
  });

  test("a # inside other comments, and escaped quotes before a #", () => {
    expect(parse('{ /* # */ "a": "\\"#", // # \n "b": 2 }')).toEqual({ a: '"#', b: 2 });
  });

  test("numbers as 5e8, and a byte order mark", () => {
    expect(parse('\uFEFF{"reduce_bucket_size": 5e8}')).toEqual({ reduce_bucket_size: 500000000 });
  });

  test("any JSON keeps its value", () => {
    const leaf = fc.oneof(
      fc.string(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
      fc.constant(null),
    );
    const value = fc.dictionary(fc.string(), fc.oneof(leaf, fc.array(leaf), fc.dictionary(fc.string(), leaf)));
    fc.assert(
      fc.property(value, (object) => {
        const text = JSON.stringify(object);
        expect(parse(text)).toEqual(JSON.parse(text));
        expect(plain(parseConfigObject(object).root)).toEqual(structuredClone(object));
      }),
      { numRuns: 200 },
    );
  });

  test("lines are those of the file, after comments of several lines too", () => {
    const root = parseConfigText('{\n/* \n\n*/ "a": 1,\r\n# x\n"b": {\n"c": 2}}', "ds.json").root;
    if (root.kind !== "object") throw new Error("not an object");
    expect(root.members.map((member) => [member.key, member.line])).toEqual([
      ["a", 4],
      ["b", 6],
    ]);
  });
});

describe("bad input is a ConfigError that says where", () => {
  const cases: [name: string, text: string, wanted: RegExp][] = [
    ["empty", "", /ds\.json.*\n.*the file is empty/],
    ["a byte order mark and white space", "\uFEFF \n\t", /the file is empty/],
    ["not JSON", "hello", /line 1: .*"hello"/],
    ["a key twice", '{\n"a": 1,\n"a": 2}', /line 3: a: this key is already on line 2/],
    ["a key twice deep inside", '{"a": {"b": 1,\n"b": 1}}', /line 2: a\.b: this key is already on line 1/],
    ["braces without end", "[".repeat(100_000), /list/],
    ["objects without end", "{a:".repeat(100_000), /more than 64 levels/],
    ["a huge text", " ".repeat(5_000_000), /5000000 characters/],
  ];
  test.each(cases)("%s", (_, text, wanted) => {
    expect(() => parseConfigText(text, "ds.json")).toThrow(ConfigError);
    expect(() => parseConfigText(text, "ds.json")).toThrow(wanted);
  });

  test("the message shows the line with a caret", () => {
    const text = '{\n  "fp16": { "enabled": True }\n}';
    expect(() => parseConfigText(text, "ds.json")).toThrow(
      [
        "ds.json cannot be used:",
        "  line 2: fp16.enabled: found True; write true",
        '    |   "fp16": { "enabled": True }',
        "    |                        ^",
      ].join("\n"),
    );
  });

  test("several syntax slips are listed together, one a line", () => {
    try {
      parseConfigText('{"a": True,\n"b": False,\n"c": 1 "d": 2}', "ds.json");
      expect.unreachable();
    } catch (error) {
      expect((error as ConfigError).problems.map((problem) => problem.line)).toEqual([1, 2, 3]);
    }
  });

  test("files: missing, a folder, not UTF-8", () => {
    expect(() => parseConfigFile(join(folder, "none.json"))).toThrow(/none\.json.*\n.*no such file/);
    expect(() => parseConfigFile(folder)).toThrow(/folder/);
    expect(() => parseConfigFile(file("latin1.json", new Uint8Array([0x7b, 0xe9, 0x7d])))).toThrow(/not UTF-8/);
    for (const encoding of ["utf16le", "utf16be"]) {
      const bytes = Buffer.from('\uFEFF{"a": 1}', "utf16le");
      const path = file("utf16.json", encoding === "utf16be" ? bytes.swap16() : bytes);
      expect(() => parseConfigFile(path)).toThrow(/UTF-16 text; save it as UTF-8/);
    }
    expect(() => parseConfigFile(file("nul.json", Buffer.from('{"a": 1}', "utf16le")))).toThrow(
      /NUL character.*UTF-16/,
    );
    expect(plain(parseConfigFile(file("good.json", '{"a": 1}')).root)).toEqual({ a: 1 });
  });

  test("objects that JSON cannot hold", () => {
    const endless: Record<string, unknown> = {};
    endless.self = endless;
    expect(() => parseConfigObject(endless)).toThrow(/holds itself/);
    expect(() => parseConfigObject({ a: 1n })).toThrow(/a: found a bigint/);
    expect(() => parseConfigObject({ a: { b: () => 0 } })).toThrow(/a\.b: found a function/);
  });

  test("random text is parsed or is a ConfigError", () => {
    const pieces = fc.constantFrom(
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      '"',
      "#",
      "//",
      "/*",
      "*/",
      "\n",
      "1e9",
      "a",
      "\\",
      "null",
      " ",
    );
    const text = fc.oneof(
      fc.string(),
      fc.array(pieces).map((parts) => parts.join("")),
    );
    fc.assert(
      fc.property(text, (input) => {
        try {
          expect(parseConfigText(input, "ds.json").root.kind).toBe("object");
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError);
        }
      }),
      { numRuns: 1000 },
    );
  });
});
