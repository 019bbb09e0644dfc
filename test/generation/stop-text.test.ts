// Stop strings, however a text is cut into pieces.
import { expect, test } from "vitest";
import { UsageError } from "../../src/errors/errors.ts";
import { StopText } from "../../src/generation/stop-text.ts";

/** What comes out, piece by piece and at the end. */
function through(stops: readonly string[], pieces: readonly string[]): { text: string; found: boolean } {
  const stop = new StopText(stops);
  let text = "";
  for (const piece of pieces) text += stop.push(piece);
  return { text: text + stop.end(), found: stop.found };
}

test.each([
  [["END"], "one END two", "one "],
  [["END"], "one EN two EN", undefined],
  [["\n\n", "User:"], "a\nUser: b", "a\n"],
  [["aab"], "aaab", "a"],
  [["b", "abc"], "xabc", "xa"],
  [["न"], "नमस्ते न", ""],
  [[], "anything", undefined],
] as const)("%j in %j", (stops, text, wanted) => {
  const expected = { text: wanted ?? text, found: wanted !== undefined };
  expect(through(stops, [text])).toEqual(expected);
  expect(through(stops, [...text])).toEqual(expected);
  for (let cut = 1; cut < text.length; cut++)
    expect(through(stops, [text.slice(0, cut), text.slice(cut)])).toEqual(expected);
});

test("what may begin a stop string is held back until it cannot", () => {
  const stop = new StopText(["<end>"]);
  expect(stop.push("a <e")).toBe("a ");
  expect(stop.push("nd")).toBe("");
  expect(stop.push("s")).toBe("<ends");
  expect(stop.push("<")).toBe("");
  expect(stop.end()).toBe("<");
  expect(stop.push("<end>more")).toBe("");
  expect(stop.push("more")).toBe("");
  expect(stop.end()).toBe("");
});

test("an empty stop string is refused", () => {
  expect(() => new StopText(["a", ""])).toThrow(UsageError);
});
