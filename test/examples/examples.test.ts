// The examples run as their first lines say, on real ranks, and stay as short as they promise.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseConfigFile } from "../../src/config/json.ts";
import { resolveConfig } from "../../src/config/resolve.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { root, run } from "../cli/command.ts";

const example = (name: string): string => join(root, "examples", name);

test.each([
  ["own-model.ts", 60, ["100"], 2],
  ["train-gpt2.ts", 50, [join(root, "README.md"), "20"], 2],
] as const)("%s trains in under %d lines", async (name, lines, args, printed) => {
  expect(readFileSync(example(name), "utf8").trimEnd().split("\n").length).toBeLessThan(lines);
  const { exitCode, stdout, stderr } = await run(["launch", "--ranks", "2", example(name), ...args]);
  expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  const losses = [...stdout.matchAll(/^step \d+ {2}loss (\S+)/gm)].map((match) => Number(match[1]));
  expect(losses).toHaveLength(printed);
  expect(losses.at(-1)!).toBeLessThan(losses[0]! - 0.1);
});

test("generate.ts writes a text, on ranks that share the model", async () => {
  const model = join(root, "test/oracles/gpt2-tiny/model");
  const { exitCode, stdout, stderr } = await run(["launch", "--ranks", "2", example("generate.ts"), model, "we "]);
  expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  expect(stdout.startsWith("we ")).toBe(true);
  expect(stdout.length).toBeGreaterThan(20);
});

test("ds_config.json is accepted as it is, for 1, 2 and 4 ranks", () => {
  const path = example("ds_config.json");
  expect(() => JSON.parse(readFileSync(path, "utf8"))).not.toThrow(); // DeepSpeed reads it as well
  for (const worldSize of [1, 2, 4])
    expect(resolveConfig({ file: parseConfigFile(path), worldSize })).toMatchObject({
      stage: 3,
      precision: "bf16",
      warnings: [],
    });
});
