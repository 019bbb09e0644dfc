import fc from "fast-check";
import { expect, test } from "vitest";
import { editDistance, nearest } from "../../src/errors/spelling.ts";

test.each([
  ["", "", 0],
  ["", "abc", 3],
  ["kitten", "sitting", 3],
  ["stage", "satge", 1],
  ["lr", "lrr", 1],
])("%s to %s is %i edits", (a, b, distance) => {
  expect(editDistance(a, b)).toBe(distance);
});

test("the distance is symmetric, and 0 only between equal words", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 12 }), fc.string({ maxLength: 12 }), (a, b) => {
      expect(editDistance(a, b)).toBe(editDistance(b, a));
      expect(editDistance(a, b) === 0).toBe(a === b);
    }),
  );
});

test("only near words are proposed, the nearest first", () => {
  const words = ["gradient_clipping", "steps_per_print", "lr", "eps"];
  expect(nearest("gradient_cliping", words)).toBe("gradient_clipping");
  expect(nearest("stepsPerPrint", words)).toBe("steps_per_print");
  expect(nearest("steps-per-print", words)).toBe("steps_per_print");
  expect(nearest("epss", words)).toBe("eps");
  expect(nearest("momentum", words)).toBeUndefined();
  expect(nearest("l".repeat(1000), words)).toBeUndefined();
});
