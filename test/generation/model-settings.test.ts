// generation_config.json beside a model: where its texts end, how tokens are drawn when nobody says it, and that written models keep it.
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { saveCheckpoint } from "../../src/checkpoint/save-training.ts";
import type { JsonObject } from "../../src/checkpoint/training-manifest.ts";
import { runExport } from "../../src/cli/checkpoint-export.ts";
import { checkCompanionsThere, copyCompanions } from "../../src/cli/companion-files.ts";
import { samplingNotice } from "../../src/cli/generate-job.ts";
import { ModelError } from "../../src/errors/errors.ts";
import { openGenerator } from "../../src/generation/open-generator.ts";
import type { GenerateOptions } from "../../src/generation/text-generator.ts";
import { createLogger } from "../../src/log/logger.ts";
import { root, temporaryFolder, tinyModel } from "../cli/command.ts";
import { engineOf, smallJob } from "../zero/support.ts";

const here = temporaryFolder();
const name = "generation_config.json";
let folders = 0;

/** A model that writes bytes, with this file. */
function modelWith(settings: object | string): string {
  const folder = join(here, `model-${folders++}`);
  mkdirSync(folder);
  copyFileSync(join(tinyModel, "config.json"), join(folder, "config.json"));
  copyFileSync(join(root, "test/oracles/gpt2-tiny/final/model.safetensors"), join(folder, "model.safetensors"));
  writeFileSync(join(folder, name), typeof settings === "string" ? settings : JSON.stringify(settings));
  return folder;
}

async function write(folder: string, options: GenerateOptions = {}) {
  await using model = await openGenerator(folder, { threads: 1 });
  const generation = model.generate("the ", { tokens: 30, ...options });
  let text = "";
  let next = await generation.next();
  for (; !next.done; next = await generation.next()) text += next.value;
  return { text, finish: next.value.finish };
}

const greedy = { temperature: 0 } as const;

test("a text ends at any of its tokens", async () => {
  const { text } = await write(modelWith({}), greedy);
  const at = 5;
  const [never, end] = [255, text.charCodeAt(at)];
  const found = await write(modelWith({ eos_token_id: [never, end] }), greedy);
  expect(found).toEqual({ text: text.slice(0, text.indexOf(text[at]!)), finish: "end" });
});

describe("tokens are drawn as it says", () => {
  test("where a call leaves it open, and as the call says where not", async () => {
    const own = modelWith({ do_sample: true, temperature: 3, top_k: 3, top_p: 0.9 });
    const plain = modelWith({});
    const asked = { temperature: 3, topK: 3, topP: 0.9 };
    expect(await write(own)).toEqual(await write(plain, asked));
    expect(await write(own, { topK: 200 })).toEqual(await write(plain, { ...asked, topK: 200 }));
    expect(await write(own)).not.toEqual(await write(own, { topK: 200 }));
    expect(await write(own, greedy)).toEqual(await write(plain, greedy));
  });

  test("or the likeliest is taken", async () => {
    const own = modelWith({ do_sample: false, temperature: 3 });
    expect(await write(own)).toEqual(await write(own, greedy));
    expect(await write(own)).not.toEqual(await write(own, { temperature: 1 }));
  });

  test.each([
    [{}, "as the model's generation_config.json says: temperature 0.6, top-k all, top-p 0.9"],
    [{ topK: 5 }, "as the model's generation_config.json says: temperature 0.6, top-p 0.9"],
    [{ temperature: 1, topK: 5, topP: 1 }, undefined],
    [greedy, undefined],
  ])("and the command says so of what the flags leave open: %j", (options, notice) => {
    expect(samplingNotice(options, { temperature: 0.6, topK: undefined, topP: 0.9 })).toBe(notice);
    expect(samplingNotice(options, undefined)).toBeUndefined();
  });

  test("and the command says that the likeliest is taken", () => {
    const own = { temperature: 0, topK: 50, topP: 1 };
    expect(samplingNotice({}, own)).toMatch(/the likeliest token each time; --temperature draws/);
    expect(samplingNotice({ temperature: 1 }, own)).toMatch(/: top-k 50, top-p 1$/);
  });
});

test("what is not applied is told, and a file that is broken is an error with its name", async () => {
  const stderr = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  try {
    await write(modelWith({ repetition_penalty: 1.1 }), { tokens: 1 });
    expect(stderr.mock.calls.map(([text]) => text)).toEqual([
      "warning: the model's generation_config.json has repetition_penalty 1.1, which this version does not apply\n",
    ]);
  } finally {
    stderr.mockRestore();
  }
  await expect(write(modelWith("{"))).rejects.toThrow(ModelError);
  await expect(write(modelWith({ eos_token_id: "end" }))).rejects.toThrow(
    /model-\d+\/generation_config\.json cannot be used/,
  );
});

/** As Python writes a float: nothing that parses and renders it keeps that. */
const text = '{\n  "eos_token_id": [\n    7,\n    32\n  ],\n  "temperature": 1.0\n}\n';

describe("beside a model that is written", () => {
  const none = { tokenizer: undefined, generation: undefined };

  test("it is as it was; another's is replaced only where that is asked for", async () => {
    const output = join(here, "output");
    mkdirSync(output);
    await copyCompanions({ ...none, generation: text }, output);
    expect(readFileSync(join(output, name), "utf8")).toBe(text);
    checkCompanionsThere(output, { ...none, generation: text }, false);
    for (const generation of [undefined, "{}"]) {
      const check = (overwrite: boolean) => checkCompanionsThere(output, { ...none, generation }, overwrite);
      expect(() => check(false)).toThrow(/output holds a generation_config\.json that is not this model's/);
      check(true);
    }
    await copyCompanions(none, output);
    expect(existsSync(join(output, name))).toBe(false);
  });

  test("it comes with a checkpoint, for texts and for the model that is made of it", async () => {
    await using opened = await openModelFolder(tinyModel);
    const { config } = opened;
    if ("architecture" in config) throw new Error("wanted a GPT-2");
    const checkpoints = join(here, "checkpoints");
    await using engine = await engineOf({ job: smallJob({ model: { kind: "gpt2", config } }) });
    await saveCheckpoint(engine, checkpoints, {
      run: { model: config as unknown as JsonObject, generation: text },
    });
    const said: string[] = [];
    const stdout = vi.spyOn(process.stdout, "write").mockReturnValue(true);
    const output = join(here, "exported");
    await runExport(
      { folder: checkpoints, output, dtype: "fp32" },
      createLogger({ write: (line) => said.push(line) }),
    ).finally(() => stdout.mockRestore());
    expect({ kept: readFileSync(join(output, name), "utf8"), said }).toEqual({ kept: text, said: [] });
    const stderr = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    const [found, wanted] = [await write(checkpoints, { seed: 5 }), await write(output, { seed: 5 })];
    stderr.mockRestore();
    expect(found).toEqual(wanted);
  });
});
