// The list of faults fits the sources as they are, so that `npm run mutate` can plant each; the laws' page names each.
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { faults } from "../../scripts/faults.ts";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

test("every fault has one place to be planted, and changes it", () => {
  const misplaced = faults.filter((f) => read(f.file).split(f.find).length !== 2 || f.find === f.replace);
  expect(misplaced.map((f) => `${f.name}: ${f.file}`)).toEqual([]);
});

test("every fault has a name of its own and a law that exists", () => {
  expect(new Set(faults.map((f) => f.name)).size).toBe(faults.length);
  expect(faults.filter((f) => !existsSync(new URL(`../../${f.law.file}`, import.meta.url)))).toEqual([]);
});

test("the laws' page lists every fault beside its law", () => {
  const rows = read("docs/laws.md").split("\n");
  const missing = faults.filter(
    (f) => !rows.some((row) => row.includes(f.name) && row.includes(f.law.file) && row.includes(f.law.name)),
  );
  expect(missing.map((f) => f.name)).toEqual([]);
});
