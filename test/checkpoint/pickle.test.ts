// The restricted pickle reader: what it builds, and that nothing hostile gets through, hangs or takes more than its share.
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readPickle } from "../../src/checkpoint/pickle.ts";
import { PickleObject } from "../../src/checkpoint/pickle-values.ts";
import { torchGlobals } from "../../src/checkpoint/torch-globals.ts";
import { ModelError } from "../../src/errors/errors.ts";

const bytes = (...parts: (string | number[])[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === "string" ? [...Buffer.from(part, "latin1")] : part)));
const program = (...parts: (string | number[])[]): Uint8Array => bytes("\x80\x02", ...parts, ".");
const allowed = new Map([
  ...torchGlobals,
  ["m C", (args: readonly unknown[]) => new PickleObject("m.C", args)] as const,
]);
const read = (pickle: Uint8Array): unknown => readPickle(pickle, { path: "x.pkl", globals: allowed });
const refusal = (pickle: Uint8Array): string => {
  let value: unknown;
  try {
    value = read(pickle);
  } catch (error) {
    expect(error).toBeInstanceOf(ModelError);
    return (error as ModelError).message;
  }
  return expect.fail(`read as ${String(value)}`);
};

describe("what is read", () => {
  test.each<[string, Uint8Array, unknown]>([
    [
      "integers of every width",
      program("(K\xffM\x01\x02J\xfe\xff\xff\xff\x8a\x00\x8a\x02\x00\xfft"),
      [255, 513, -2, 0, -256],
    ],
    ["an integer beyond 2^53", program("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"), -(2n ** 63n)],
    [
      "text and bytes",
      program("(X\x03\x00\x00\x00\xe0\xa4\x95\x8c\x01aU\x01\xe9C\x02\x00\xfft"),
      ["क", "a", "é", Uint8Array.of(0, 255)],
    ],
    ["a float, None and truth", program("(G?\xf8\x00\x00\x00\x00\x00\x00N\x88\x89t"), [1.5, null, true, false]],
    ["one list in two places", program("]q\x00K\x01a0](h\x00h\x00e"), [[1], [1]]],
    [
      "dicts, filled one by one and together",
      program("}K\x01K\x02s(K\x03K\x04u"),
      new Map([
        [1, 2],
        [3, 4],
      ]),
    ],
    ["a frame and text of protocol 4", program("\x95\x02\x00\x00\x00\x00\x00\x00\x00\x8c\x00"), ""],
    [
      "an OrderedDict with attributes",
      program("ccollections\nOrderedDict\n)RK\x01K\x02s}K\x05K\x06sb"),
      new Map([[1, 2]]),
    ],
    ["a set of protocol 2", program("c__builtin__\nset\n](K\x01K\x02e\x85R"), [1, 2]],
    [
      "bytes of protocol 2",
      program("c_codecs\nencode\nX\x02\x00\x00\x00\xc3\xa9X\x06\x00\x00\x00latin1\x86R"),
      Uint8Array.of(233),
    ],
  ])("%s", (_, pickle, wanted) => {
    expect(read(pickle)).toEqual(wanted);
  });

  test("an object of an allowed class is its arguments and attributes", () => {
    const object = read(program("cm\nC\nK\x07\x85\x81}X\x01\x00\x00\x00aK\x01sb")) as PickleObject;
    expect([object.className, object.arguments, object.attributes.get("a")]).toEqual(["m.C", [7], 1]);
  });

  test("nesting of any depth takes no stack", () => {
    const depth = 300_000;
    let value = read(
      program(
        "K\x01",
        Array.from({ length: depth }, () => 0x85),
      ),
    ) as readonly unknown[];
    for (let i = 1; i < depth; i++) value = value[0] as readonly unknown[];
    expect(value).toEqual([1]);
    expect(refusal(program(Array.from({ length: depth }, () => 0x5d)))).toMatch(
      /found 299999 values besides the result/,
    );
  });
});

describe("what is refused, and where", () => {
  test.each<[string, Uint8Array, RegExp]>([
    [
      "a command of the shell",
      program("cposix\nsystem\nX\x02\x00\x00\x00ls\x85R"),
      /^x\.pkl, byte 2: found posix\.system; a pickle may run anything/,
    ],
    ["the same by its other spelling", program("\x8c\x08builtins\x8c\x04eval\x93"), /byte 18: found builtins\.eval/],
    ["a name of a Map's own", program("cconstructor\nprototype\n"), /found constructor\.prototype/],
    ["a name with a terminal's codes", program("ca\x1b[2J\nb\n"), /found a\\u001b\[2J\.b/],
    ["a call of a text", program("X\x01\x00\x00\x00a)R"), /byte 9: found a call of "a"/],
    ["protocol 1", bytes("(lp0\n."), /byte 0: found no protocol; wanted a pickle of protocol 2 to 5/],
    ["protocol 6", bytes("\x80\x06N."), /found protocol 6; wanted 2 to 5/],
    ["an instruction of protocol 0", program("I1\n"), /byte 2: found the instruction 0x49, which is not known/],
    ["an extension code", program("\x82\x01"), /instruction 0x82/],
    ["a list that contains itself", program("]q\x00h\x00a"), /byte 5: found a list of 0 that contains itself/],
    [
      "a list that is changed after it was finished",
      program("]q\x000h\x00K\x01a"),
      /a list that is changed after it was finished/,
    ],
    [
      "two dicts that contain each other",
      program("}q\x000}q\x01K\x01h\x00s0h\x00K\x01h\x01s"),
      /a dict that is changed after/,
    ],
    ["a tuple that is added to", program(")K\x01a"), /found a tuple of 0; wanted a list/],
    ["a list as a key", program("}]K\x01s"), /found a list of 0 as the key of a dict/],
    ["a key without a value", program("}(K\x01u"), /found a key without a value/],
    ["a reference to nothing", program("h\x07"), /found a reference to value 7, which there is not/],
    ["the end of no group", program("t"), /the end of a group that has not begun/],
    ["values from below a mark", program("K\x01K\x02(\x86"), /an instruction for a value that there is not/],
    ["nothing at the end", program(), /byte 2: found an instruction for a value that there is not/],
    ["text of 4 GiB", program("X\xff\xff\xff\xff"), /byte 2: wanted 4294967295 bytes more, found 1: it is truncated/],
    ["bytes of 2^63", program("\x8e\x00\x00\x00\x00\x00\x00\x00\x80"), /found a length of 9223372036854775808/],
    ["an integer of 4 GiB", program("\x8b\xff\xff\xff\xff"), /found an integer of 4294967295 bytes; wanted at most 64/],
    ["no end", bytes("\x80\x02K\x01"), /byte 4: wanted 1 bytes more, found 0: it is truncated/],
    ["broken text", program("X\x01\x00\x00\x00\xff"), /found text that is not UTF-8/],
    ["a name without an end", program("c", "a".repeat(5000)), /found a name without an end/],
    ["something outside", program("X\x01\x00\x00\x00aQ"), /found "a" as the name of what is outside/],
    [
      "a dict that is made of a list",
      program("ccollections\nOrderedDict\n]\x85R"),
      /wanted one that is filled in place/,
    ],
    [
      "a tensor of a text",
      program("ctorch._utils\n_rebuild_tensor_v2\nX\x01\x00\x00\x00a\x85R"),
      /found a tensor of "a"; wanted a storage/,
    ],
    [
      "makers of makers of makers",
      program("ctorch._tensor\n_rebuild_from_type_v2\nq\x00h\x00N)\x87R"),
      /found a tensor made by/,
    ],
  ])("%s", (_, pickle, wanted) => {
    expect(refusal(pickle)).toMatch(wanted);
  });

  test("one long list that is copied over and over", () => {
    const list = ["]q\x00(", "K\x01".repeat(10_000), "e0"];
    const copies = "c__builtin__\nset\nh\x00\x85R0".repeat(5000);
    expect(refusal(program(...list, copies, "N"))).toMatch(/found values that are copied over and over/);
  });

  test("millions of values", () => {
    const many = Uint8Array.from({ length: 3_000_000 }, (_, i) => [0x80, 2][i] ?? "N".charCodeAt(0));
    expect(refusal(many)).toMatch(/byte 2000002: found more than 2000000 instructions: it is no checkpoint/);
  });

  test("references to references double nothing", () => {
    const lines = ["]q\x00(K\x01K\x01e0"];
    for (let i = 1; i < 60; i++)
      lines.push(`]q${String.fromCharCode(i)}(h${String.fromCharCode(i - 1)}h${String.fromCharCode(i - 1)}e0`);
    expect(read(program(...lines, "h\x3b"))).toHaveLength(2);
  });
});

describe("any bytes are a value or a ModelError", () => {
  /** Its answer, in a time that grows with its length alone. */
  const answers = (pickle: Uint8Array): void => {
    try {
      read(pickle);
    } catch (error) {
      if (!(error instanceof ModelError)) throw error;
      expect(error.message).toMatch(/^x\.pkl, byte \d+: /);
    }
  };
  const codes =
    "\x80\x95(01N\x88\x89KMJ\x8a\x8bG\x8cX\x8dUTCB\x8e\x96]}\x8f)\x85\x86\x87t\x91ae\x90suqr\x94hjc\x93R\x81bQ.";

  test("random programs", () => {
    const part = fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom(...codes) },
      {
        weight: 2,
        arbitrary: fc.constantFrom(
          "q\x00",
          "h\x00",
          "K\x01",
          "]",
          "}",
          ")",
          "(",
          "\x8c\x01a",
          "ccollections\nOrderedDict\n",
          "cm\nC\n",
        ),
      },
      { weight: 1, arbitrary: fc.uint8Array({ maxLength: 4 }).map((b) => String.fromCharCode(...b)) },
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 60 }), (parts) => answers(program(parts.join("")))),
      { numRuns: 5000 },
    );
  });

  test("pickles of PyTorch with changed bytes", () => {
    const file = readFileSync(new URL("../oracles/torch/model/pytorch_model.bin", import.meta.url));
    const start = file.indexOf("\x80\x02ccollections", 0, "latin1");
    const pickle = file.subarray(start, file.indexOf("PK", start, "latin1"));
    const change = fc.tuple(fc.nat(pickle.length - 1), fc.nat(255));
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 4 }), fc.nat(pickle.length), (changes, cut) => {
        const changed = Uint8Array.from(pickle);
        for (const [at, value] of changes) changed[at] = value;
        answers(changed);
        answers(changed.subarray(0, cut));
      }),
      { numRuns: 1000 },
    );
  });
});
