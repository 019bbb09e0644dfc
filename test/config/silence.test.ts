// No key passes in silence: neither in any place of the table, nor with any value.
import { describe, expect, test } from "vitest";
import { nodeFromValue, parseConfigObject, parseConfigText } from "../../src/config/json.ts";
import type { KeySpec } from "../../src/config/key-kinds.ts";
import { aliases, keys, misspellings } from "../../src/config/keys.ts";
import { sections } from "../../src/config/known-keys.ts";
import { examineConfig } from "../../src/config/resolve.ts";
import { silentKeys } from "./silence.ts";

const values = [
  0,
  2,
  -1,
  0.5,
  "auto",
  "3",
  "x",
  "",
  true,
  false,
  null,
  [],
  [0.9, 0.95],
  {},
  { a: 1 },
  { enabled: true },
];

/** The object with `value` at the end of the path; what is no object on the way becomes one. */
function withValue(object: unknown, [first, ...rest]: readonly string[], value: unknown): unknown {
  if (first === undefined) return value;
  const base = typeof object === "object" && object !== null ? (object as Record<string, unknown>) : {};
  return { ...base, [first]: withValue(base[first], rest, value) };
}

describe("whatever a key's value, it is acted on or spoken of, and there is a configuration or an error", () => {
  const paths = new Set([
    ...Object.keys(keys),
    ...Object.keys(aliases),
    ...Object.keys(misspellings),
    ...sections.keys(),
  ]);
  paths.delete("");
  const known = { model: { name: "m", hiddenSize: 64, parameterElements: 1e6 }, stepsOf: () => 10 };
  test.each([0, 2, 3])("at stage %i", (stage) => {
    const base = { train_micro_batch_size_per_gpu: 1, zero_optimization: { stage }, optimizer: { type: "Adam" } };
    for (const path of paths)
      for (const value of values) {
        const root = nodeFromValue(withValue(base, path.split("."), value), "", 0, "ds.json");
        const examination = examineConfig({ file: { fileName: "ds.json", root }, worldSize: 4, ...known });
        const what = `${path}: ${JSON.stringify(value)}`;
        expect(silentKeys(root, examination), what).toEqual([]);
        const hasError = examination.problems.some((problem) => problem.level === "error");
        expect(examination.config === undefined, what).toBe(hasError);
      }
  });
});

test("the check hears a key that nobody speaks of", () => {
  const file = parseConfigText(
    '{"train_batch_size": 4, "zero_optimization": {"round_robin_gradients": true}}',
    "ds.json",
  );
  const { draft } = examineConfig({ file, worldSize: 1 });
  expect(silentKeys(file.root, { draft, problems: [] })).toEqual(["zero_optimization.round_robin_gradients"]);
  const places = new Map(draft.places);
  places.delete("train_batch_size");
  expect(silentKeys(file.root, { draft: { places }, problems: [] })).toContain("train_batch_size");
});

test("a key without effect passes unsaid at what happens anyway, at DeepSpeed's default, and at no other value", () => {
  const candidates = [true, false, 0, 1, -1, 3, 0.5, "x", "auto", [1], { a: 1 }, { enabled: true }];
  for (const [path, spec] of Object.entries(keys) as [string, KeySpec][]) {
    if (spec.status !== "unused") continue;
    const unsaid = [...spec.obeyed, ...(spec.deepspeed === undefined ? [] : [spec.deepspeed])];
    // Both answers to one question cannot be what happens.
    expect([path, spec.obeyed.includes(true) && spec.obeyed.includes(false)]).toEqual([path, false]);
    expect([path, new Set(unsaid).size]).toEqual([path, unsaid.length]);
    for (const value of [...candidates, ...unsaid]) {
      const config = withValue({ train_batch_size: 4, optimizer: { type: "Adam" } }, path.split("."), value);
      if (path.startsWith("scheduler."))
        Object.assign((config as { scheduler: object }).scheduler, { type: "WarmupLR" });
      const { problems } = examineConfig({ file: parseConfigObject(config), worldSize: 4 });
      const isTold = problems.some((problem) => problem.path === path);
      expect([path, value, isTold]).toEqual([path, value, !unsaid.some((v) => v === value)]);
    }
  }
});
