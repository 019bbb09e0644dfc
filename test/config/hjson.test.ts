// The syntax, against the published Hjson reader as an oracle, and every slip with its place.
import { createRequire } from "node:module";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseHjson } from "../../src/config/hjson.ts";
import type { ConfigNode } from "../../src/config/json.ts";

const oracle: { parse(text: string): unknown } = createRequire(import.meta.url)("hjson");

/** The tree as plain values. */
function plain(node: ConfigNode): unknown {
  if (node.kind === "scalar") return node.value;
  if (node.kind === "array") return node.items.map(plain);
  return Object.fromEntries(node.members.map((member) => [member.key, plain(member.value)]));
}

function values(text: string): unknown {
  const { root, problems } = parseHjson(text);
  expect(problems).toEqual([]);
  return plain(root!);
}

describe("what Hjson accepts has Hjson's value", () => {
  const texts: [name: string, text: string, wanted: unknown][] = [
    ["comments of three kinds", '{ // a "b" {\n# c: [\n"d": 1, /* e\n*/ f: 2 # g\n}', { d: 1, f: 2 }],
    ["a comment sign inside a text", '{"url": "http://x/#y", b: "/* */"}', { url: "http://x/#y", b: "/* */" }],
    ["trailing commas", '{"a": [1, 2,], "b": {"c": 1,},}', { a: [1, 2], b: { c: 1 } }],
    ["missing commas at line ends", '{\n"a": 1\n"b": [1\n2\n]\nc: {d: 1}\n}', { a: 1, b: [1, 2], c: { d: 1 } }],
    [
      "bare keys and texts without quotes",
      "{\n type: AdamW\n nvme_path: /local/nvme \n}",
      { type: "AdamW", nvme_path: "/local/nvme" },
    ],
    [
      "numbers and words before a comment",
      "a: 5e8 // x\nb: true # y\nc: null /* z */\nd: -1.5",
      { a: 5e8, b: true, c: null, d: -1.5 },
    ],
    [
      "texts that only begin like numbers",
      "a: 1 B\nb: 01\nc: 2x\nd: true story\ne: 1.2.3",
      { a: "1 B", b: "01", c: "2x", d: "true story", e: "1.2.3" },
    ],
    ["single quotes", "{'a': 'it\\'s', \"b\": '\"'}", { a: "it's", b: '"' }],
    ["escapes", '{"a": "\\u00e9\\n\\t\\/\\\\"}', { a: "\u00e9\n\t/\\" }],
    [
      "a text of several lines",
      "{\n  a: '''\n    one\n      two\n    '''\n  b: '''x'''\n}",
      { a: "one\n two", b: "x" },
    ],
    [
      "root braces left out",
      "train_batch_size: 8\nfp16: {enabled: true}",
      { train_batch_size: 8, fp16: { enabled: true } },
    ],
    ["nothing at all", "", {}],
    ["comments only", "# nothing\n", {}],
    ["an address", "a: http://x/y", { a: "http://x/y" }],
    ["Python's True at a line end, which is a text", "a: True", { a: "True" }],
    ["__proto__ and other names of objects", '{"__proto__x": 1, "constructor": 2}', { __proto__x: 1, constructor: 2 }],
  ];
  test.each(texts)("%s", (_, text, wanted) => {
    const found = values(text);
    expect(found).toEqual(wanted);
    expect(found).toEqual(oracle.parse(text));
  });

  test("any configuration, written in any of Hjson's ways", () => {
    const name = fc.stringMatching(/^[a-z_][a-z0-9_]{0,8}$/);
    const number = fc.oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }));
    const gap = fc.constantFrom("", " ", "\n", "\r\n", " // c, } ]\n", "/* { */", "\n# x: 1\n", "\t");
    const comma = fc.constantFrom(",", "\n", " , ", ",\n", " # c\n", "/**/\n");
    const leaf = fc.oneof(
      number.map((value) => JSON.stringify(value)),
      fc.constantFrom("true", "false", "null", "5e8", "1E-4", "0.0"),
      fc.string().map((value) => JSON.stringify(value)),
      fc
        .stringMatching(/^[a-zA-Z/][a-z0-9 ./_-]{0,12}$/)
        .filter((text) => !text.startsWith("/"))
        .map((text) => `${text}\n`),
      fc.stringMatching(/^[a-z "\n]{0,20}$/).map((text) => `'''${text}'''`),
      fc.stringMatching(/^[a-z "]{0,12}$/).map((text) => `'${text}'`),
    );
    const { object } = fc.letrec<{ value: string; object: string }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc
          .tuple(fc.array(fc.tuple(tie("value"), comma)), gap)
          .map(([items, end]) => `[${items.flat().join("")}${end}]`),
        tie("object"),
      ),
      object: fc
        .tuple(
          fc.uniqueArray(fc.tuple(name, fc.boolean(), gap, tie("value"), comma), {
            selector: ([key]) => key,
            maxLength: 5,
          }),
          gap,
        )
        .map(([members, end]) => {
          const inside = members.map(
            ([key, quotes, space, value, last]) => `${quotes ? `"${key}"` : key}:${space}${value}${last}`,
          );
          return `{${end}${inside.join("")}}`;
        }),
    }));
    let agreed = 0;
    fc.assert(
      fc.property(object, fc.boolean(), (text, braces) => {
        const source = braces ? text : text.slice(1, -1);
        let wanted: unknown;
        try {
          wanted = oracle.parse(source);
        } catch {
          return;
        }
        if (JSON.stringify(wanted).includes("Infinity")) return;
        const { root, problems } = parseHjson(source);
        if (problems.length > 0) {
          // Only what the parser is stricter in by intention.
          for (const { message } of problems)
            expect(message).toMatch(/without quotes goes on|a comma is missing|wanted/);
          return;
        }
        agreed++;
        expect(plain(root!)).toEqual(wanted);
      }),
      { numRuns: 1500 },
    );
    expect(agreed).toBeGreaterThan(700);
  });

  test("every key has its line and column", () => {
    const { root } = parseHjson('{\n  "a": 1, b: {\r\n\t"c": 2 }\n/* \n */ d: 4\n}');
    const places: [string, number | undefined, number | undefined][] = [];
    const walk = (node: ConfigNode): void => {
      if (node.kind !== "object") return;
      for (const { key, line, column, value } of node.members) {
        places.push([key, line, column]);
        walk(value);
      }
    };
    walk(root!);
    expect(places).toEqual([
      ["a", 2, 3],
      ["b", 2, 11],
      ["c", 3, 2],
      ["d", 5, 5],
    ]);
  });
});

describe("a slip is said with its place", () => {
  const slips: [name: string, text: string, line: number, column: number, wanted: RegExp][] = [
    ["an open brace", '{\n"a": {"b": 1,\n"c": 2}\n', 1, 1, /this \{ is never closed/],
    [
      "an open brace that the indentation tells",
      '{\n  "a": {\n    "b": 1,\n  "c": 2\n}\n',
      2,
      8,
      /this \{ is probably never closed: the \} on line 5/,
    ],
    ["an open list", '{"a": [1, 2', 1, 7, /this \[ is never closed/],
    ["an open text", '{"a": "b\n}', 1, 7, /this " is not closed on its line/],
    ["an open long text", "{a: '''b\n}", 1, 5, /''' is never closed/],
    ["an open comment", '{"a": 1 /* }', 1, 9, /this \/\* is never closed/],
    ["text after the end", '{"a": 1} {"b": 2}', 1, 10, /text after the \}/],
    ["one brace too many", '{"a": 1}}', 1, 9, /closes nothing/],
    ["the first brace missing", '"a": 1\n}', 2, 1, /the \{ at the start is missing/],
    ["a comma missing on a line", '{"a": 1 "b": 2}', 1, 8, /a comma is missing after 1/],
    ["two commas", '{"a": 1,, "b": 2}', 1, 9, /second comma/],
    ["no value", '{"a": , "b": 2}', 1, 7, /found ,; wanted a value of a/],
    ["no value, then the next key", '{"a":\n"b": 2}', 2, 4, /a colon after a value/],
    ["no colon", '{"a" 1}', 1, 5, /found "1}" after "a"; wanted a colon/],
    ["an equals sign", "{\nstage = 2\n}", 2, 7, /found = after "stage"; write a colon/],
    ["a key twice", '{\n"a": 1,\n"a": 2}', 3, 1, /already on line 2/],
    ["a key twice, deep inside", '{"x": {"a": 1,\n "a": 2}}', 2, 2, /already on line 1/],
    ["Python's True", '{"a": True, "b": 1}', 1, 7, /found True; write true/],
    ["Python's None", '{"a": None\n}', 1, 7, /found None; write null/],
    ["NaN", '{"a": NaN}', 1, 7, /found NaN; no key takes it/],
    ["typographic quotes around a key", "{“a”: 1}", 1, 2, /“ is a typographic quote/],
    ["typographic quotes around a value", '{"a": “cpu”, "b": 1}', 1, 7, /“ is a typographic quote/],
    ["a text that swallows the rest", "{type: AdamW, lr: 1}", 1, 8, /"AdamW, lr: 1}"; write "AdamW" in quotes/],
    ["a text that swallows a comment", "{\ndevice: cpu # x\n}", 2, 9, /write "cpu" in quotes/],
    [
      "a text of a whole page",
      `{"a": ${"x y ".repeat(600)}}`,
      1,
      7,
      /without quotes of more than 2000 characters; put quotes/,
    ],
    ["a template", '{"a": <stage>, "b": 1}', 1, 7, /found <stage>, an unfilled placeholder/],
    ["another template", '{"a": MICRO_BATCH,\n"b": 1}', 1, 7, /found MICRO_BATCH, an unfilled/],
    ["YAML", "zero_optimization:\n  stage: 2\n", 2, 3, /another key where its value is wanted/],
    ["CSV", "step,loss\n1,2\n", 1, 5, /found ",loss" after "step"; wanted a colon.*looks like \{/],
    ["a program", 'import x from "y";\n', 1, 7, /found "x" after "import"/],
    ["a sentence", "hello", 1, 6, /found the end of the file after "hello"/],
    ["a list", "[1]", 1, 1, /found a list; wanted an object/],
    ["a NUL", '{"a": \0}', 1, 7, /NUL/],
    ["an unknown escape", '{"a": "C:\\data"}', 1, 10, /\\d has no meaning/],
    ["an invisible space", '{\u00a0"a": 1}', 1, 2, /invisible character \(U\+00A0\)/],
    ["a wide colon", '{"a"：1}', 1, 5, /found ： after "a"/],
    ["too many levels", "{a:".repeat(65), 1, 193, /more than 64 levels/],
  ];
  test.each(slips)("%s", (_, text, line, column, wanted) => {
    const [first] = parseHjson(text).problems;
    expect(first?.message).toMatch(wanted);
    expect([first?.line, first?.column, first?.level]).toEqual([line, column, "error"]);
    const [shown, caret] = first!.excerpt!.split("\n");
    const lineText = text.split("\n")[line - 1]!;
    if (lineText.length < 50) {
      expect(shown!.length).toBeLessThanOrEqual(lineText.length);
      expect(caret).toBe(`${" ".repeat(column - 1)}^`);
    }
  });

  test("all slips that leave no doubt are listed together, one a line", () => {
    const { problems } = parseHjson('{"a": True,\n"b": False,\n"c": 1 "d": 2,\n"e": None, "f": None,\n"a": 1}');
    expect(problems.map((problem) => problem.line)).toEqual([1, 2, 3, 4, 5]);
  });

  test("a key three times: each names the first", () => {
    const { problems } = parseHjson('{"a": 1,\n"a": 2,\n"a": 3}');
    expect(problems.map(({ message }) => message)).toEqual(
      Array(2).fill("this key is already on line 1; keep one of the two"),
    );
  });

  test("64 levels are read", () => {
    expect(parseHjson("{a:".repeat(64) + "}".repeat(64)).problems[0]?.message).toMatch(/wanted a value/);
    expect(parseHjson(`${"{a:".repeat(63)}1${"}".repeat(63)}`).problems).toEqual([]);
  });

  test("any text is read or has a problem with a place", () => {
    const pieces = fc.constantFrom(
      ..."{}[],:\"'#\n\r\\ ",
      "//",
      "/*",
      "*/",
      "'''",
      "1e9",
      "a",
      "null",
      "-",
      "“",
      "\0",
      "\u00a0",
      "=",
    );
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.array(pieces).map((parts) => parts.join("")),
    );
    fc.assert(
      fc.property(text, (input) => {
        const { root, problems } = parseHjson(input);
        expect(root !== undefined || problems.length > 0).toBe(true);
        for (const { line, column } of problems) expect(Math.min(line!, column!)).toBeGreaterThan(0);
      }),
      { numRuns: 3000 },
    );
  });

  test("time grows with the length only", () => {
    const pieces = [
      "-,",
      "a ",
      "{a:",
      "[",
      "'",
      "'''",
      "/*",
      "/",
      "\n",
      "a:1\n",
      "“",
      '"\\',
      ",",
      "\u00a0",
      "1 ",
      "#",
      "[1\n",
    ];
    const slow = pieces.filter((piece) => {
      const text = piece.repeat(1_000_000 / piece.length);
      return [text, `a: ${text}`, `{a: "${text}`].some((input) => {
        const start = performance.now();
        parseHjson(input);
        return performance.now() - start > 2000;
      });
    });
    expect(slow).toEqual([]);
  });
});
