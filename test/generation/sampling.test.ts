// What may be drawn and how likely, by hand; and that draws come as often as they should.
import { describe, expect, test } from "vitest";
import { NumericalError, UsageError } from "../../src/errors/errors.ts";
import { checkOptions } from "../../src/errors/options.ts";
import { generateKinds } from "../../src/generation/option-kinds.ts";
import { choicesOf, sampleToken } from "../../src/generation/sampling.ts";

/** Probabilities at temperature 1: 0.1, 0.4, 0.2, 0.25, 0.05. */
const logits = Float32Array.from([0.1, 0.4, 0.2, 0.25, 0.05], Math.log);
const probabilities = (choices: readonly { probability: number }[]) => choices.map((c) => c.probability);
const tokens = (choices: readonly { token: number }[]) => choices.map((c) => c.token);

function expectNear(found: readonly number[], wanted: readonly number[]): void {
  expect(found).toHaveLength(wanted.length);
  for (const [i, value] of wanted.entries()) expect(found[i]).toBeCloseTo(value, 6);
}

describe("choices", () => {
  test("all tokens at temperature 1 are the softmax", () => {
    expectNear(probabilities(choicesOf(logits, { temperature: 1 })), [0.1, 0.4, 0.2, 0.25, 0.05]);
  });

  test("temperature 0 is the likeliest, the first of equals", () => {
    expect(choicesOf(logits, { temperature: 0 })).toEqual([{ token: 1, probability: 1 }]);
    expect(tokens(choicesOf(Float32Array.of(1, 3, 3), { temperature: 0 }))).toEqual([1]);
  });

  test("temperature 1/2 squares the probabilities", () => {
    const squares = [0.01, 0.16, 0.04, 0.0625, 0.0025];
    const found = choicesOf(logits, { temperature: 0.5 });
    expectNear(
      probabilities(found),
      squares.map((s) => s / 0.275),
    );
  });

  test("top-k keeps the k likeliest in order, and of equals the smaller token", () => {
    const found = choicesOf(logits, { temperature: 1, topK: 2 });
    expect(tokens(found)).toEqual([1, 3]);
    expectNear(probabilities(found), [0.4 / 0.65, 0.25 / 0.65]);
    expect(tokens(choicesOf(Float32Array.of(1, 2, 1, 2, 1), { temperature: 1, topK: 3 }))).toEqual([1, 3, 0]);
  });

  test("top-p keeps the fewest that reach the share, one at least", () => {
    const kept = (topP: number, topK?: number) => tokens(choicesOf(logits, { temperature: 1, topP, topK }));
    expect(kept(0.1)).toEqual([1]);
    expect(kept(0.41)).toEqual([1, 3]);
    expect(kept(0.86)).toEqual([1, 3, 2, 0]);
    expect(kept(1)).toHaveLength(5);
    expectNear(probabilities(choicesOf(logits, { temperature: 1, topP: 0.7 })), [0.4 / 0.85, 0.25 / 0.85, 0.2 / 0.85]);
    // Of the three that top-k leaves the likeliest has 0.4 / 0.85 = 0.47: the share is of what is left.
    expect(kept(0.45, 3)).toEqual([1]);
    expect(kept(0.48, 3)).toEqual([1, 3]);
  });

  test("of a large vocabulary, as by ordering all of it", () => {
    const many = Float32Array.from({ length: 5000 }, (_, i) => Math.sin(i * i) * 3);
    const ordered = [...many.keys()].sort((a, b) => many[b]! - many[a]! || a - b);
    expect(tokens(choicesOf(many, { temperature: 1, topK: 700 }))).toEqual(ordered.slice(0, 700));
    const nucleus = tokens(choicesOf(many, { temperature: 1, topP: 0.9 }));
    expect(nucleus).toEqual(ordered.slice(0, nucleus.length));
    const weight = (of: readonly number[]) => of.reduce((sum, t) => sum + Math.exp(many[t]!), 0);
    expect(weight(nucleus) / weight(ordered)).toBeGreaterThanOrEqual(0.9);
    expect(weight(nucleus.slice(0, -1)) / weight(ordered)).toBeLessThan(0.9);
  });

  test("logits that are no numbers are an error that says so", () => {
    expect(() => choicesOf(Float32Array.of(0, Number.NaN), { temperature: 0 })).toThrow(NumericalError);
    expect(() => choicesOf(Float32Array.of(0, Number.POSITIVE_INFINITY), { temperature: 1 })).toThrow(/Infinity/);
    expect(tokens(choicesOf(Float32Array.of(0, Number.NEGATIVE_INFINITY), { temperature: 1, topP: 0.99 }))).toEqual([
      0,
    ]);
  });
});

test("draws depend on seed and index alone, and come as often as they are likely", () => {
  const draw = (seed: number, index: number) => sampleToken(logits, { temperature: 1, seed }, index);
  expect(draw(5, 17)).toBe(draw(5, 17));
  const counts = new Array<number>(5).fill(0);
  const all = 20_000;
  for (let i = 0; i < all; i++) counts[draw(1, i)]!++;
  // Within five standard deviations, of at most sqrt(p (1 - p) n) = 70.
  for (const [token, share] of [0.1, 0.4, 0.2, 0.25, 0.05].entries())
    expect(Math.abs(counts[token]! - share * all)).toBeLessThan(350);
  expect(new Set(Array.from({ length: 50 }, (_, seed) => draw(seed, 0))).size).toBeGreaterThan(2);
});

test("settings that cannot be are refused by name", () => {
  const check = (options: object) => () => checkOptions("generate", options, generateKinds);
  expect(check({ temperature: 1, seed: 1, topP: undefined })).not.toThrow();
  for (const [bad, wanted] of [
    [{ temperature: -1 }, /temperature: found -1/],
    [{ temperature: Number.NaN }, /temperature: found NaN/],
    [{ topK: 0 }, /topK: found 0/],
    [{ topK: 2.5 }, /topK/],
    [{ topP: 0 }, /topP: found 0/],
    [{ topP: 1.1 }, /topP: found 1.1/],
    [{ seed: -1 }, /seed/],
  ] as const) {
    expect(check(bad)).toThrow(wanted);
    expect(check(bad)).toThrow(UsageError);
  }
});
