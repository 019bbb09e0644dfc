/** Parameter groups: whose pattern has a name, whose numbers a group has, and what is no group at all. */
import { expect, test } from "vitest";
import type { ParameterGroupConfig } from "../../src/config/types.ts";
import { UsageError } from "../../src/errors/errors.ts";
import { ParameterGroups } from "../../src/optim/groups.ts";

const optimizer = { type: "Lion", learningRate: 1e-3, weightDecay: 0.1, beta1: 0.9, beta2: 0.99 } as const;
const names = ["wte.weight", "h.0.ln_1.weight", "h.0.ln_1.bias", "h.0.attn.weight", "h.0.attn.bias", "h.1.ln_1.bias"];
const frozen = { name: "h.0.frozen.weight", trainable: false };
const parameters = [...names.map((name) => ({ name, trainable: true })), frozen];

const group = (match: readonly string[], more: Partial<ParameterGroupConfig> = {}): ParameterGroupConfig => ({
  match,
  learningRate: undefined,
  weightDecay: undefined,
  ...more,
});
const groupsOf = (...groups: ParameterGroupConfig[]) => new ParameterGroups(optimizer, groups, parameters);

test("the first group that matches has a parameter, the optimizer the rest", () => {
  const groups = groupsOf(group(["*.bias", "*ln*"], { weightDecay: 0 }), group(["h.*"], { learningRate: 0.5 }));
  expect(names.map((name) => groups.of(name))).toEqual([0, 1, 1, 2, 1, 1]);
  expect(groups.numbers).toEqual([
    { learningRate: 1e-3, weightDecay: 0.1 },
    { learningRate: 1e-3, weightDecay: 0 },
    { learningRate: 0.5, weightDecay: 0.1 },
  ]);
  expect(groupsOf().numbers).toHaveLength(1);
});

test.each([
  ["wte.weight", ["wte.weight"]],
  ["*", names],
  ["h.0.*", ["h.0.ln_1.weight", "h.0.ln_1.bias", "h.0.attn.weight", "h.0.attn.bias"]],
  ["h.*.bias", ["h.0.ln_1.bias", "h.0.attn.bias", "h.1.ln_1.bias"]],
  ["*.ln_1.*", ["h.0.ln_1.weight", "h.0.ln_1.bias", "h.1.ln_1.bias"]],
  ["**1**bias", ["h.0.ln_1.bias", "h.1.ln_1.bias"]],
  ["*h*ln*weight", ["h.0.ln_1.weight"]],
])("the pattern %s", (pattern, wanted) => {
  const groups = groupsOf(group([pattern]));
  expect(names.filter((name) => groups.of(name) === 1)).toEqual(wanted);
});

test.each(["h.0.ln_1", "ln_1.bias", "h.?.ln_1.bias", "h.[0].ln_1.bias", "*weightweight", "wte.weight*weight", ""])(
  "the pattern %s has no parameter: no characters but * stand for others, and none is taken twice",
  (pattern) => {
    expect(() => groupsOf(group([pattern]))).toThrow(UsageError);
  },
);

test("a pattern that matches nothing is named, with what was perhaps meant and names there are", () => {
  const message = (...groups: ParameterGroupConfig[]): string => {
    try {
      groupsOf(...groups);
    } catch (error) {
      return (error as Error).message;
    }
    return "";
  };
  expect(message(group(["*.bias"]), group(["*.attn.*", "h.*.wieght"]))).toMatch(
    /^shunya\.parameter_groups: group 2: .*"h\.\*\.wieght"; did you mean "h\.\*\.weight"\? .*wte\.weight/,
  );
  expect(message(group(["ln_1.bais"]))).toContain('did you mean "*ln_1.bias"?');
  expect(message(group(["attn"]))).toContain('did you mean "*attn*"?');
  expect(message(group(["*norm*"]))).not.toContain("did you mean");
  expect(message(group(["*frozen*"]))).toMatch(/frozen parameters only \(h\.0\.frozen\.weight\)/);
  expect(message(group(["h.*"]), group(["*ln*"]))).toMatch(/group 2: groups before it take every parameter/);
});

test("a pattern with many stars takes no longer than others", () => {
  const name = "a".repeat(2000);
  const pattern = `${"*a".repeat(500)}*b`;
  const start = performance.now();
  expect(() => new ParameterGroups(optimizer, [group([pattern])], [{ name, trainable: true }])).toThrow(UsageError);
  expect(performance.now() - start).toBeLessThan(1000);
});
