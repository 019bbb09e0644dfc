// Values as DeepSpeed takes them: what it coerces is coerced, what it refuses is refused.
import { describe, expect, test } from "vitest";
import { nodeFromValue } from "../../src/config/json.ts";
import { anyNumber, lossScale, positive } from "../../src/config/key-types.ts";
import {
  boolean,
  elements,
  integer,
  isReadFromText,
  number,
  oneOf,
  pair,
  describe as shown,
  type ValueType,
  wantedOf,
} from "../../src/config/value-types.ts";

const node = (value: unknown) => nodeFromValue(value, "", 0, "test");
const read = (type: ValueType<unknown>, value: unknown) => type.read(node(value));

describe("coercions", () => {
  const rows: [name: string, type: ValueType<unknown>, found: unknown, wanted: unknown][] = [
    ["5e8", integer(1), 5e8, 500_000_000],
    ["8.0", integer(1), 8.0, 8],
    ["text", integer(1), "500000000", 500_000_000],
    ["text as 5e8", integer(1), " 5e8 ", 500_000_000],
    ["1e14", elements(1), 1e14, 100_000_000_000_000],
    ["9999999999", elements(1), 9_999_999_999, 9_999_999_999],
    ["beyond 2^53: no limit", elements(1), 1e30, Number.MAX_SAFE_INTEGER],
    ["a fraction", integer(1), 5.5, undefined],
    ["a fraction as text", integer(1), "5.5", undefined],
    ["too small", integer(1), 0, undefined],
    ["a boolean", integer(0), true, undefined],
    ["null", integer(0), null, undefined],
    ["empty text", integer(0), "", undefined],
    ["hexadecimal text", integer(0), "0x10", undefined],
    ["too large for exact", integer(0), 2 ** 53, undefined],
    ["infinite", elements(0), Number.POSITIVE_INFINITY, undefined],
    ["a number as text", number(0), "1.0", 1],
    ["1e-4 as text", number(0), "1e-4", 1e-4],
    [".5 as text", number(0), ".5", 0.5],
    ["Infinity as text", number(0), "Infinity", undefined],
    ["beyond fp32", number(0), 1e39, undefined],
    ["NaN", number(0), Number.NaN, undefined],
    ["the limit", number(0, { below: 1 }), 1, undefined],
    ["a pair", pair(number(0)), [0.9, "0.999"], [0.9, 0.999]],
    ["three", pair(number(0)), [0.9, 0.999, 1], undefined],
    ...["yes", "TRUE", "on", "1", "y", "t", 1, true].map((v) => [`true: ${v}`, boolean, v, true] as const),
    ...["no", "False", "off", "0", "n", "f", 0, false].map((v) => [`false: ${v}`, boolean, v, false] as const),
    ...[2, -1, "maybe", "", null, [true], {}].map((v) => [`neither: ${v}`, boolean, v, undefined] as const),
    ["a word in another case", oneOf(["cpu", "none"]), "CPU", "cpu"],
    ["a number as a word", oneOf([0, 1, 2, 3]), "3", 3],
    ["2.0", oneOf([0, 1, 2, 3]), 2.0, 2],
    ["another number", oneOf([0, 1, 2, 3]), 4, undefined],
    ["another word", oneOf(["cpu", "none"]), "gpu", undefined],
  ].map((row) => row as [string, ValueType<unknown>, unknown, unknown]);
  test.each(rows)("%s", (_, type, found, wanted) => {
    expect(read(type, found)).toEqual(wanted);
  });

  test("a number beyond what a type takes is told the limit, and digits that were rounded are not shown", () => {
    const told = (type: ValueType<unknown>, value: unknown) => `${shown(node(value))}; ${wantedOf(type, node(value))}`;
    expect(told(integer(1), 2 ** 53)).toBe("about 9.007199254740992e+15; a positive whole number, at most 2^53 - 1");
    expect(told(integer(1), 1.5)).toBe("1.5; a positive whole number");
    expect(told(integer(0), 1e300)).toBe("1e+300; a whole number from 0 on, at most 2^53 - 1");
    for (const type of [number(0), lossScale, positive, anyNumber])
      expect(told(type, 1e39)).toMatch(/^1e\+39; .*, at most 3\.4028e38, the largest fp32 number$/);
    expect(told(number(0), -1)).toBe("-1; a number from 0 on");
    expect(told(number(0, { below: 1 }), 2)).toBe("2; a number from 0 to below 1");
  });

  test("a value that was read from a text is known as such", () => {
    expect(isReadFromText(node("5e8"), 5e8)).toBe(true);
    expect(isReadFromText(node("yes"), true)).toBe(true);
    expect(isReadFromText(node("cpu"), "cpu")).toBe(false);
    expect(isReadFromText(node(5), 5)).toBe(false);
  });
});
