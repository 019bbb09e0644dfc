import { InvalidArgumentError } from "commander";
import { expect, test } from "vitest";
import { parseCount, parseInteger } from "../../src/cli/parse.ts";

test.each([
  ["1.5B", 1_500_000_000],
  ["1.5b", 1_500_000_000],
  ["1.5 B", 1_500_000_000],
  ["1.5e9", 1_500_000_000],
  ["1.5E+9", 1_500_000_000],
  ["1,500,000,000", 1_500_000_000],
  ["1500000000", 1_500_000_000],
  ["1500000000.0", 1_500_000_000],
  [" 350M ", 350_000_000],
  ["1T", 1_000_000_000_000],
  ["1G", 1_000_000_000],
  ["30k", 30_000],
  // In floating point 1.1 times 10^9, 0.29 times 10^2 and 4.35 times 10^2 need not be whole.
  ["1.1B", 1_100_000_000],
  ["0.29e2", 29],
  ["4.35e2", 435],
  ["124,439,808", 124_439_808],
  ["1.5e3M", 1_500_000_000],
  ["1", 1],
])('"%s" is %s', (text, count) => {
  expect(parseCount(text)).toBe(count);
});

test.each([
  ["0", "wanted a number above 0"],
  ["0.0B", "wanted a number above 0"],
  ["1.5", "which is 1.5; wanted a whole number"],
  ["1.2345k", "which is 1234.5; wanted a whole number"],
  ["99999T", "wanted a number of at most 9,007,199,254,740,991"],
  ["1e99", "wanted a number of at most"],
  ["-1.5B", "wanted a number such as 1.5B"],
  ["1.5X", "wanted a number such as 1.5B"],
  ["1.5Bn", "wanted a number such as"],
  ["", "wanted a number such as"],
  ["NaN", "wanted a number such as"],
  ["Infinity", "wanted a number such as"],
  ["1e-3", "wanted a number such as"],
  ["1,5B", "wanted a number such as"],
  ["15,00,000", "wanted a number such as"],
  ["0x10", "wanted a number such as"],
  ["1.", "wanted a number such as"],
  ["B", "wanted a number such as"],
])('"%s" is refused', (text, why) => {
  expect(() => parseCount(text)).toThrow(InvalidArgumentError);
  expect(() => parseCount(text)).toThrow(`found "${text}"`);
  expect(() => parseCount(text)).toThrow(why);
});

test("whole numbers may be written with an exponent, and nothing else is one", () => {
  expect(["1e3", "2E+2", " 7 "].map(parseInteger(1))).toEqual([1000, 200, 7]);
  for (const text of ["1e99", "9".repeat(20)])
    expect(() => parseInteger(1)(text)).toThrow(`found "${text}"; wanted a whole number from 1 to 9007199254740991.`);
  for (const text of ["1.5", "1e-3", "e3", "0x10", "", "-1"])
    expect(() => parseInteger(1)(text)).toThrow(`found "${text}"; wanted a whole number of at least 1.`);
});
