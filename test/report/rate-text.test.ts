import { expect, test } from "vitest";
import { rateText } from "../../src/report/plan-words.ts";

test.each([
  [0.123, "0.123"],
  [512.4, "512"],
  [999.4, "999"],
  [999.6, "1.00 k"],
  [7764, "7.76 k"],
  [14_812, "14.8 k"],
])("%s tokens/s are %s", (perSecond, text) => {
  expect(rateText(perSecond)).toBe(text);
});
