// What the command says about itself.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { root, run } from "./command.ts";

test.each([
  [["--help"], [/train/, /generate/, /launch/, /doctor/, /quickstart/, /trains on the CPU/]],
  [["train", "--help"], ["config", "stage", "set", "model", "data", "ranks", "steps", "seq-length", "seed"].map(flag)],
  [
    ["train", "--help"],
    [
      "micro-batch",
      "lr",
      "no-shuffle",
      "device-memory",
      "threads",
      "device",
      "output",
      "log-json",
      "tokenizer",
      "text-field",
      "data-cache",
      "validation",
      "eval-every",
    ].map(flag),
  ],
  [["generate", "--help"], ["model", "prompt", "tokens", "temperature", "top-k", "seed"].map(flag)],
  [["generate", "--help"], ["jsonl", "chat", "top-p", "stop", "ranks", "config", "device-memory", "threads"].map(flag)],
  [
    ["launch", "--help"],
    [/<script>/, flag("ranks")],
  ],
  [
    ["tokenizer", "--help"],
    [/train/, /encode/, /decode/, /show/],
  ],
  [["tokenizer", "train", "--help"], ["data", "vocab-size", "output", "special", "overwrite"].map(flag)],
  [["quickstart", "--help"], [flag("output")]],
  [
    ["checkpoint", "--help"],
    [/inspect/, /verify/, /export/, /merge/, /convert/],
  ],
  [["checkpoint", "export", "--help"], ["output", "dtype", "max-shard-size"].map(flag)],
  [["checkpoint", "merge", "--help"], ["model", "adapter", "output", "dtype"].map(flag)],
  [["train", "--help"], ["freeze", "adapter", "lora-rank", "lora-alpha", "lora-targets", "lora-dropout"].map(flag)],
  [["checkpoint", "convert", "--help"], ["from", "output", "model"].map(flag)],
])("%j", async (args, patterns) => {
  const { exitCode, stdout, stderr } = await run(args);
  expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  for (const pattern of patterns) expect(stdout).toMatch(pattern);
});

function flag(name: string): RegExp {
  return new RegExp(`^ +--${name}\\b`, "m");
}

test("the version is the package's", async () => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  expect((await run(["--version"])).stdout).toBe(`${version}\n`);
});

test("the doctor says what this machine trains on", async () => {
  const { exitCode, stdout, stderr } = await run(["doctor"]);
  expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  expect(stdout).toMatch(/^devices +This version trains on the CPUs .* no GPU support yet\.$/m);
  for (const name of ["node", "cores", "memory", "native core"])
    expect(stdout).toMatch(new RegExp(`^${name} +\\S`, "m"));
  expect(stdout).toMatch(/portable/);
});
