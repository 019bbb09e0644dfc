// The examples run as their first lines say, on real ranks, and stay as short as they promise.
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
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

test("Hindi: from text to a model that answers, in few steps", async () => {
  const folder = mkdtempSync(join(tmpdir(), "shunya-hindi-"));
  try {
    const at = (name: string): string => join(folder, name);
    const made = spawnSync(process.execPath, ["--import", "tsx", example("hindi/make-data.ts"), folder], { cwd: root });
    expect(made.stderr.toString()).toBe("");
    const ok = async (...args: string[]): Promise<string> => {
      const { exitCode, stdout, stderr } = await run(args);
      expect({ args, exitCode, stderr }).toEqual({ args, exitCode: exitCodes.ok, stderr: "" });
      return stdout;
    };
    const special = ["<|im_start|>", "<|im_end|>"].flatMap((token) => ["--special", token]);
    await ok(
      "tokenizer",
      "train",
      "--data",
      at("text.txt"),
      "--vocab-size",
      "768",
      ...special,
      "--output",
      at("tokenizer"),
    );
    copyFileSync(example("hindi/chat_template.jinja"), at("tokenizer/chat_template.jinja"));
    const few = [
      "--ranks",
      "2",
      "--steps",
      "2",
      "--set",
      "scheduler.params.warmup_num_steps=1",
      "--data-cache",
      at("cache"),
    ];
    const first = ["--model", example("hindi/model"), "--tokenizer", at("tokenizer"), "--data", at("text.txt")];
    const saves = ["--save-every", "2", "--output", at("base")];
    await ok("train", ...first, "--config", example("hindi/pretrain.json"), ...few, ...saves);
    // A folder that others load has the tokenizer too.
    await ok("checkpoint", "export", at("base/checkpoints"), "--output", at("exported"));
    for (const name of ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"])
      expect(readFileSync(at(`exported/${name}`)), name).toEqual(readFileSync(at(`tokenizer/${name}`)));
    const then = ["--model", at("base"), "--data", at("chats.jsonl"), "--seq-length", "128"];
    await ok("train", ...then, "--config", example("hindi/tune.json"), ...few, "--output", at("adapter"));
    const both = ["--model", at("base"), "--adapter", at("adapter")];
    await ok("checkpoint", "merge", ...both, "--dtype", "bf16", "--output", at("model"));
    mkdirSync(at("others"));
    writeFileSync(at("others/tokenizer.json"), "{}");
    for (const command of [
      ["merge", ...both],
      ["export", at("base/checkpoints")],
    ]) {
      const { exitCode, stderr } = await run(["checkpoint", ...command, "--output", at("others")]);
      expect(exitCode).toBe(exitCodes.user);
      expect(stderr).toContain("holds another tokenizer.json");
    }
    expect(readdirSync(at("others"))).toEqual(["tokenizer.json"]);
    const ask = ["--chat", "--prompt", "केरल की राजधानी क्या है?", "--tokens", "8", "--temperature", "0"];
    expect(await ok("generate", "--model", at("model"), ...ask)).not.toBe("");
  } finally {
    rmSync(folder, { recursive: true });
  }
}, 60_000);
