// Adapters in PEFT's layout: what is read of its settings and what is refused by name, tensors that do not fit, and that what is
// written has the keys and tensors that PEFT itself writes. oracles/peft/ is PEFT's own.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { openAdapterFolder, writeAdapterFolder } from "../../src/checkpoint/adapter-folder.ts";
import { parseAdapterConfig } from "../../src/checkpoint/adapter-json.ts";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { writeSafetensors } from "../../src/checkpoint/safetensors-writer.ts";
import type { ModelConfig } from "../../src/nn/models/models.ts";

const pathOf = (name: string): string => fileURLToPath(new URL(`../oracles/${name}`, import.meta.url));
const here = mkdtempSync(join(tmpdir(), "shunya-adapter-"));
afterAll(() => rmSync(here, { recursive: true }));

const peft = pathOf("peft/gpt2/final");
const settings = JSON.parse(readFileSync(join(peft, "adapter_config.json"), "utf8")) as Record<string, unknown>;
const modelOf = async (folder: string): Promise<ModelConfig> => {
  await using opened = await openModelFolder(pathOf(folder));
  return opened.config;
};
const gpt2 = await modelOf("gpt2-tiny/model");

describe("adapter_config.json", () => {
  const parse = (changes: object) => parseAdapterConfig(JSON.stringify({ ...settings, ...changes }), "a.json");

  test("PEFT's is read, with all that it leaves off", () => {
    const { lora, base } = parse({});
    const targets = ["c_attn", "c_fc", "c_proj"];
    expect(lora).toEqual({ rank: 4, alpha: 16, targets, dropout: 0, rankStabilized: false });
    expect(base).toBe("tiny-gpt2");
    expect(parse({ target_modules: "all-linear", use_rslora: true }).lora).toMatchObject({
      targets: ["all-linear"],
      rankStabilized: true,
    });
  });

  test("a short one of an old version is enough", () => {
    const short = { peft_type: "LORA", r: 8, lora_alpha: 32, target_modules: ["q_proj"], task_type: "CAUSAL_LM" };
    expect(parseAdapterConfig(JSON.stringify(short), "a.json").lora).toMatchObject({ rank: 8, alpha: 32, dropout: 0 });
  });

  test.each([
    [{ use_dora: true }, /use_dora: found true; this version does not have it/],
    [{ bias: "all" }, /bias: found "all"; wanted "none"/],
    [{ modules_to_save: ["lm_head"] }, /modules_to_save: found \["lm_head"\]/],
    [{ rank_pattern: { c_fc: 2 } }, /rank_pattern: found an object/],
    [{ alpha_pattern: { c_fc: 2 } }, /alpha_pattern: found an object/],
    [{ layers_to_transform: [0] }, /layers_to_transform: found \[0\]/],
    [{ target_parameters: ["x"] }, /target_parameters/],
    [{ lora_bias: true }, /lora_bias/],
    [{ some_later_idea: 3 }, /some_later_idea: found 3; this version does not have it/],
    [{ peft_type: "IA3" }, /peft_type: found "IA3"; wanted "LORA"/],
    [{ task_type: "SEQ_CLS" }, /task_type: found "SEQ_CLS"/],
    [{ init_lora_weights: "pissa" }, /init_lora_weights: found "pissa".*the model's own weights/],
    [{ target_modules: ".*attn.*" }, /target_modules: found ".\*attn.\*"; wanted a list of names/],
    [{ target_modules: [] }, /target_modules/],
    [{ r: 0 }, /r: found 0; wanted a positive whole number/],
    [{ lora_alpha: 0 }, /lora_alpha: found 0; wanted a number above 0/],
    [{ lora_alpha: null }, /lora_alpha: found null; wanted a number above 0/],
    [{ lora_dropout: 1 }, /lora_dropout: found 1/],
  ])("%j is refused by name", (changes, message) => {
    expect(() => parse(changes)).toThrow(message);
  });

  test("all that is wrong is told at once, and no JSON is told as such", () => {
    expect(() => parse({ use_dora: true, bias: "all", r: -1 })).toThrow(/bias[\s\S]*r: found -1[\s\S]*use_dora/);
    expect(() => parseAdapterConfig("{", "a.json")).toThrow(/a\.json is not JSON/);
    expect(() => parseAdapterConfig("[]", "a.json")).toThrow(/wanted a JSON object with a peft_type/);
  });
});

describe("a folder", () => {
  const copy = (name: string, changes: object = {}): string => {
    const folder = join(here, name);
    cpSync(peft, folder, { recursive: true });
    writeFileSync(join(folder, "adapter_config.json"), JSON.stringify({ ...settings, ...changes }));
    return folder;
  };
  const tensorsWith = async (
    folder: string,
    edit: (name: string) => { name: string; shape?: number[] } | undefined,
  ) => {
    await using file = await openSafetensors(join(peft, "adapter_model.safetensors"));
    const entries = [...file.tensors.values()].flatMap(({ name, shape, elements }) => {
      const changed = edit(name);
      return changed ? [{ from: name, elements, dtype: "F32" as const, shape, ...changed }] : [];
    });
    await writeSafetensors(join(folder, "adapter_model.safetensors"), entries, async function* ({ from, elements }) {
      yield new Uint8Array((await file.readFloat32(from, 0, elements)).buffer);
    });
    return folder;
  };
  const first = "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight";

  test("names may lack the prefix of the network, as adapters of a bare one do", async () => {
    const bare = await tensorsWith(copy("bare"), (name) => ({ name: name.replace("model.transformer.", "model.") }));
    await using folder = await openAdapterFolder(bare, gpt2);
    await using whole = await openAdapterFolder(peft, gpt2);
    const name = "transformer.h.2.mlp.c_fc.lora_B.weight";
    expect(await folder.weights.read(name, 0, 1024)).toEqual(await whole.weights.read(name, 0, 1024));
  });

  test.each([
    ["lacking", (name: string) => (name === first ? undefined : { name }), /c_attn\.lora_A\.weight is missing/],
    ["other", (name: string) => (name === first ? { name: `${first}s` } : { name }), /weights: no part of the adapter/],
    [
      "shaped",
      (name: string) => (name === first ? { name, shape: [64, 4] } : { name }),
      /found shape \[64, 4\]; wanted \[4, 64\]/,
    ],
  ] as const)("%s tensors are told", async (which, edit, message) => {
    const folder = await tensorsWith(copy(which), edit);
    await expect(openAdapterFolder(folder, gpt2)).rejects.toThrow(message);
  });

  test("of another model, without weights, without settings, a file, nothing", async () => {
    const llama = await modelOf("llama-family/llama");
    await expect(openAdapterFolder(peft, llama)).rejects.toThrow(
      /does not fit the model: target_modules: no layer's name ends with "c_attn"/,
    );
    const empty = copy("empty");
    rmSync(join(empty, "adapter_model.safetensors"));
    await expect(openAdapterFolder(empty, gpt2)).rejects.toThrow(/has no adapter_model\.safetensors/);
    rmSync(join(empty, "adapter_config.json"));
    await expect(openAdapterFolder(empty, gpt2)).rejects.toThrow(
      /has no adapter_config\.json; wanted a folder with an adapter/,
    );
    await expect(openAdapterFolder(join(peft, "adapter_config.json"), gpt2)).rejects.toThrow(/is a file; wanted/);
    await expect(openAdapterFolder(join(here, "none"), gpt2)).rejects.toThrow(/no such folder/);
    writeFileSync(join(copy("cut"), "adapter_model.safetensors"), "abc");
    await expect(openAdapterFolder(join(here, "cut"), gpt2)).rejects.toThrow(/safetensors/);
  });
});

test.each(["gpt2", "llama"] as const)("what is written of %s is what PEFT writes", async (name) => {
  const folder = pathOf(`peft/${name}/final`);
  const config = await modelOf(name === "gpt2" ? "gpt2-tiny/model" : "llama-family/llama");
  await using adapter = await openAdapterFolder(folder, config);
  await using file = await openSafetensors(join(folder, "adapter_model.safetensors"));
  const tensors = [...file.tensors.values()].map(({ name, shape, elements }) => ({
    ...{ name: name.replace("base_model.model.", ""), shape, elements, dtype: "F32" as const },
  }));
  const written = join(here, `written-${name}`);
  await writeAdapterFolder(
    written,
    { config, lora: adapter.lora, base: adapter.base, dtype: "fp32" },
    tensors,
    async function* (tensor) {
      yield await adapter.weights.read(tensor.name, 0, tensor.elements);
    },
  );
  const bytesOf = (of: string): Buffer => readFileSync(join(of, "adapter_model.safetensors"));
  const dataOf = (bytes: Buffer): Buffer => bytes.subarray(8 + Number(bytes.readBigUInt64LE(0)));
  expect(dataOf(bytesOf(written)).equals(dataOf(bytesOf(folder)))).toBe(true);
  await using again = await openSafetensors(join(written, "adapter_model.safetensors"));
  expect([...again.tensors]).toEqual([...file.tensors]);
  const theirs = JSON.parse(readFileSync(join(folder, "adapter_config.json"), "utf8"));
  const ours = JSON.parse(readFileSync(join(written, "adapter_config.json"), "utf8"));
  expect({ ...theirs, ...ours }).toEqual(theirs);
});
