// A model of Llama's family as a user trains, resumes, saves, generates with and plans it: the same commands as for GPT-2.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { root, run, temporaryFolder, tinyTokens, tooWide, writeFiles } from "./command.ts";

const here = temporaryFolder();
const oracle = (name: string): string => join(root, "test/oracles/llama-family", name);
const config = join(here, "ds.json");
writeFiles(here, {
  "ds.json": {
    train_micro_batch_size_per_gpu: 2,
    bf16: { enabled: true },
    optimizer: { type: "AdamW", params: { lr: 0.003 } },
    zero_optimization: { stage: 3 },
  },
});
const flags = ["train", "--data", tinyTokens, "--threads", "1", "--ranks", "2", "--config", config];

test("trained from a folder, resumed without naming the model, written back and generated with", async () => {
  const args = [...flags, "--seq-length", "32", "--steps", "6"];
  const straight = await run([...args, "--model", oracle("qwen3"), "--output", join(here, "straight")]);
  expect(straight).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  const half = ["--output", join(here, "half"), "--save-every", "3"];
  const first = [...flags, "--seq-length", "32", "--steps", "3", "--model", oracle("qwen3"), ...half];
  expect((await run(first)).exitCode).toBe(exitCodes.ok);
  const resumed = await run([...args, ...half, "--resume", join(here, "half/checkpoints")]);
  expect(resumed).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  const modelOf = (name: string): Buffer => readFileSync(join(here, name, "model.safetensors"));
  expect(modelOf("half").equals(modelOf("straight"))).toBe(true);

  const written = JSON.parse(readFileSync(join(here, "straight/config.json"), "utf8"));
  expect(written).toMatchObject({ model_type: "qwen3", architectures: ["Qwen3ForCausalLM"], head_dim: 32 });
  await using weights = await openSafetensors(join(here, "straight/model.safetensors"));
  expect(weights.tensors.get("model.layers.1.self_attn.q_norm.weight")?.shape).toEqual([32]);
  const generated = await run(["generate", "--model", join(here, "straight"), "--prompt", "we ", "--tokens", "150"]);
  expect(generated).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  expect(generated.stdout.startsWith("we ")).toBe(true);
}, 60_000);

describe("a sliding window", () => {
  test("limits no sequence: the length where none is given is the positions'", async () => {
    const trained = await run([...flags, "--model", oracle("mistral"), "--steps", "1"]);
    expect(trained).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
    expect(trained.stdout).toMatch(/windows of 128/);
    const planned = await run(["plan", "--model", oracle("mistral"), "--device-memory", "8GB"]);
    expect(planned).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
    expect(planned.stdout).toContain("x 128 tokens");
  });
});

describe("published sizes", () => {
  test.each([
    ["smollm-135m", "134,515,008"],
    ["Qwen2.5-0.5B", "494,032,768"],
    ["llama-3.2-1b", "1,235,814,400"],
    ["qwen3-0.6b", "596,049,920"],
  ])("%s is planned by this engine and for DeepSpeed", async (model, parameters) => {
    for (const engine of ["shunya", "deepspeed"]) {
      const args = [
        "--model",
        model,
        "--ranks",
        "8",
        "--device",
        "A100-40GB",
        "--seq-length",
        "256",
        "--engine",
        engine,
      ];
      const planned = await run(["plan", ...args]);
      expect(planned).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
      expect(planned.stdout).toContain(`${parameters} parameters`);
      expect(tooWide(planned.stdout)).toEqual([]);
    }
  });

  test("train --dry-run takes one by name", async () => {
    const job = [...flags, "--model", "smollm-135m", "--seq-length", "64", "--dry-run"];
    const planned = await run(job);
    expect(planned).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
    expect(planned.stdout).toContain("Nothing was started (--dry-run).");
  });
});

test("a folder whose rule of positions is not here is planned for DeepSpeed, and refused by name for this engine", async () => {
  const record = JSON.parse(readFileSync(join(oracle("llama"), "config.json"), "utf8"));
  writeFiles(here, { "ntk/config.json": { ...record, rope_scaling: { rope_type: "ntk", factor: 2 } } });
  const args = ["plan", "--model", join(here, "ntk"), "--device-memory", "8GB"];
  const ours = await run(args);
  expect(ours.exitCode).not.toBe(exitCodes.ok);
  expect(ours.stderr.replaceAll(/\s+/g, " ")).toMatch(/rope_type: found "ntk".*--engine deepspeed/);
  expect((await run([...args, "--engine", "deepspeed"])).exitCode).toBe(exitCodes.ok);
});
