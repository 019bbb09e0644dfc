// Text from a training checkpoint: that of the model folder which the run would write, with adapters too; and what is said where it cannot be.
import { cpSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { saveAdapter, saveModel } from "../../src/checkpoint/save-model.ts";
import { saveCheckpoint } from "../../src/checkpoint/save-training.ts";
import type { JsonObject } from "../../src/checkpoint/training-manifest.ts";
import { CheckpointError } from "../../src/errors/errors.ts";
import { type OpenGeneratorOptions, openGenerator } from "../../src/generation/open-generator.ts";
import { temporaryFolder } from "../cli/command.ts";
import type { Job } from "../laws/jobs.ts";
import { gpt2, tinyGpt2 } from "../laws/models.ts";
import { type EngineSettings, engineOf, smallJob, trainStep } from "../zero/support.ts";

const here = temporaryFolder();
/** Bytes are tokens. */
const config = { ...tinyGpt2, vocabularySize: 256 };
const model = config as unknown as JsonObject;
const lora = { rank: 2, alpha: 8 };
const jobOf = (more: object = {}): Job =>
  smallJob({
    model: gpt2(config),
    config: { train_micro_batch_size_per_gpu: 2, optimizer: { type: "AdamW", params: { lr: 0.03 } }, ...more },
  });
const [whole, base, adapted] = ["whole", "base", "adapted"].map((name) => join(here, name)) as [string, string, string];
const checkpointsOf = (run: string): string => join(run, "checkpoints");

/** Two steps with a checkpoint after each, and what the run writes at its end. */
async function train(settings: EngineSettings, output: string, write: "model" | "adapter"): Promise<void> {
  const { job } = settings;
  await using engine = await engineOf(settings);
  for (let step = 0; step < 2; step++) {
    await trainStep(engine, job, step);
    await saveCheckpoint(engine, checkpointsOf(output), { run: { model } });
  }
  if (write === "model") return await saveModel(engine, config, output);
  await saveAdapter(engine, { config, lora: engine.plan.config.lora!, base: null }, join(output, "adapter"));
}

beforeAll(async () => {
  await using first = await engineOf({ job: jobOf() });
  await saveModel(first, config, base);
  await train({ job: jobOf() }, whole, "model");
  const { weights, close } = await openModelFolder(base);
  await train({ job: jobOf({ shunya: { lora } }), weights: weights! }, adapted, "adapter");
  await close();
});

async function textOf(folder: string, options: OpenGeneratorOptions = {}): Promise<string> {
  await using model = await openGenerator(folder, { threads: 1, ...options });
  let text = "";
  for await (const piece of model.generate("we ", { temperature: 0, tokens: 12 })) text += piece;
  return text;
}

/** What is said on standard error meanwhile. */
async function saidBy(body: () => Promise<unknown>): Promise<string> {
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  try {
    await body();
    return write.mock.calls.map(([text]) => String(text)).join("");
  } finally {
    write.mockRestore();
  }
}

describe("the text is that of the model which the run writes", () => {
  test.each([
    ["fp32", {}],
    ["bf16, shared parameters", { config: { bf16: { enabled: true }, zero_optimization: { stage: 3 } } }],
  ])("%s; the newest of a folder is taken, and said", async (_name, options) => {
    const text = await textOf(whole, options);
    let found = "";
    const said = await saidBy(async () => {
      found = await textOf(checkpointsOf(whole), options);
    });
    expect(found).toBe(text);
    expect(said).toMatch(/^the model is that of step 2, in .*step-00000002\n$/);
    const first = await textOf(join(checkpointsOf(whole), "step-00000001"), options);
    expect(first).not.toBe(text);
  });

  test("with the adapters of the run", async () => {
    const text = await textOf(base, { adapter: join(adapted, "adapter") });
    expect(await textOf(checkpointsOf(adapted))).toBe(text);
    expect(text).not.toBe(await textOf(base));
  });

  test("with adapters that are given", async () => {
    const text = await textOf(whole, { adapter: join(adapted, "adapter") });
    expect(await textOf(checkpointsOf(whole), { adapter: join(adapted, "adapter") })).toBe(text);
  });
});

describe("damage", () => {
  const damaged = (name: string): string => {
    const folder = join(here, name);
    cpSync(checkpointsOf(whole), folder, { recursive: true });
    const file = join(folder, "step-00000002", "rank-0000-of-0001.safetensors");
    const bytes = readFileSync(file);
    // The first state after the header, which is a weight.
    bytes[8 + Number(bytes.readBigUInt64LE(0)) + 1]! ^= 4;
    writeFileSync(file, bytes);
    return folder;
  };

  test("of the newest: the one before is taken, and said", async () => {
    const folder = damaged("older");
    let found = "";
    const said = await saidBy(async () => {
      found = await textOf(folder);
    });
    expect(said).toMatch(/^warning: an older checkpoint is taken, since .*step-00000002.*\n/);
    expect(said).toMatch(/the model is that of step 1, in /);
    expect(found).toBe(await textOf(join(checkpointsOf(whole), "step-00000001")));
  });

  test("of the one that is named: an error when it is read", async () => {
    const step = join(damaged("named"), "step-00000002");
    await expect(textOf(step)).rejects.toThrow(CheckpointError);
    await expect(textOf(step)).rejects.toThrow(/rank-0000-of-0001\.safetensors/);
  });
});

describe("what cannot be", () => {
  async function saved(name: string, run: JsonObject): Promise<string> {
    const job = jobOf();
    await using engine = await engineOf({ job });
    await saveCheckpoint(engine, join(here, name), { run });
    return join(here, name);
  }

  test("a model that the checkpoint does not describe: export with --model", async () => {
    const folder = await saved("unknown", { model: "mine" });
    await expect(textOf(folder)).rejects.toThrow(
      /does not say of what model it is; write a model folder with `shunya checkpoint export --model`, and give that/,
    );
  });

  test("another model than the tensors'", async () => {
    const folder = await saved("other", { model: { ...model, layers: 3 } });
    await expect(textOf(folder)).rejects.toThrow(/is no checkpoint of this model/);
  });

  test("a tokenizer that is gone, unless another is given", async () => {
    const folder = await saved("gone", { model, tokenizer: join(here, "no", "tokenizer.json") });
    await expect(textOf(folder)).rejects.toThrow(
      /no\/tokenizer\.json, is not there any more: give its tokenizer\.json/,
    );
  });

  test("a base that is gone, or another one", async () => {
    const aside = `${base}-aside`;
    renameSync(base, aside);
    await expect(textOf(checkpointsOf(adapted))).rejects.toThrow(
      /leaves \d+ frozen tensors in its base .*, which is not there/,
    );
    cpSync(whole, base, { recursive: true });
    await expect(textOf(checkpointsOf(adapted))).rejects.toThrow(/is not the base that .* was saved with/);
    rmSync(base, { recursive: true });
    renameSync(aside, base);
  });

  test("adapters beside those of the run", async () => {
    const options = { adapter: join(adapted, "adapter") };
    await expect(textOf(checkpointsOf(adapted), options)).rejects.toThrow(/has adapters of its own/);
  });

  test("the output of a run that wrote no model yet: its checkpoints are named", async () => {
    await expect(textOf(adapted)).rejects.toThrow(
      /adapted has no config\.json; .*; .*adapted\/checkpoints can be given, too$/,
    );
  });
});
