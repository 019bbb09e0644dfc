// A file of any content within the size limit is answered soon, and with a text that can be read.
import { expect, test } from "vitest";
import { answerConfig } from "../../src/cli/config.ts";
import { renderConfigAnswer } from "../../src/cli/config-report.ts";
import { readConfigText } from "../../src/config/json.ts";

const count = 100_000;
const many = (start: string, item: (i: number) => string, end: string): string =>
  `${start}${Array.from({ length: count }, (_, i) => item(i)).join(",")}${end}`;
const batch = '{"train_batch_size":4,';

/** Each on one line, where whatever looks at the rest of a line looks at the rest of the file. */
const texts: Readonly<Record<string, string>> = {
  "unknown keys": many("{", (i) => `"key${i}":1`, "}"),
  "unknown keys beside known ones": many(batch, (i) => `"zero_optimisation${i}":1`, "}"),
  "unknown keys in a section": many(`${batch}"zero_optimization":{`, (i) => `"stage${i}":1`, "}}"),
  "unknown parameters": many(`${batch}"optimizer":{"type":"Adam","params":{`, (i) => `"lr${i}":1`, "}}}"),
  "parameters of an unknown type": many(`${batch}"scheduler":{"type":"x","params":{`, (i) => `"lr${i}":1`, "}}}"),
  notes: many(batch, (i) => `"_comment${i}":1`, "}"),
  "one key twice and again": many("{", () => '"a":1', "}"),
  "foreign words": many(`${batch}"shunya":{"nvme_paths":[`, () => "True", "]}}"),
  "texts without quotes": many(batch, (i) => `k${i}:abc`, "}"),
  groups: many(`${batch}"shunya":{"parameter_groups":[`, (i) => `{"match":"*${i}"}`, "]}}"),
  patterns: many(`${batch}"shunya":{"parameter_groups":[{"match":[`, () => '"*"', "]}]}}"),
  folders: many(
    `${batch}"zero_optimization":{"stage":3,"offload_optimizer":{"device":"nvme"}},"shunya":{"nvme_paths":[`,
    (i) => `"/x${i}"`,
    "]}}",
  ),
  "a long key": `${batch}"${"x_".repeat(1e6)}":1}`,
  "a placeholder without end": `${batch}"bf16":{"enabled":"${"{{".repeat(1e6)}"}}`,
  "a text without quotes": `${batch}"bf16":${"x: ".repeat(1e6)}}`,
};

/** The whole suite runs beside it, so that this is processor time, and a multiple of what it takes. */
const mostSeconds = 5;

test.each(Object.entries(texts))("%s", async (_, text) => {
  const before = process.cpuUsage();
  const question = { file: "ds.json", overrides: [], ranks: 2, model: "gpt2" };
  const answer = await answerConfig(question, readConfigText(text, "ds.json"));
  const shown = renderConfigAnswer(answer);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1e6).toBeLessThan(mostSeconds);
  expect(answer.problems.length).toBeLessThan(110);
  expect(shown.length).toBeLessThan(50_000);
});

test("what is not told one by one is counted", async () => {
  const question = { file: "ds.json", overrides: [], ranks: 2, model: undefined };
  const told = async (name: string) =>
    (await answerConfig(question, readConfigText(texts[name]!, "ds.json"))).problems.map(({ message }) => message);
  expect(await told("unknown keys in a section")).toContain(`this key and ${count - 101} more are unknown too`);
  expect(await told("unknown parameters")).toContain(`this is no parameter either, nor ${count - 101} more`);
  expect(await told("notes")).toContain(`this note and ${count - 101} more are no settings either`);
  expect((await told("unknown keys beside known ones")).join("\n")).toMatch(
    new RegExp(`^${count} keys at the top level .* and ${count - 20} more\\)`, "m"),
  );
});
