import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { renderModelConfig } from "../../src/checkpoint/architectures.ts";
import { parseGpt2Config } from "../../src/checkpoint/gpt2-json.ts";
import { gpt2TensorShapes } from "../../src/checkpoint/gpt2-tensors.ts";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { defaultFormat } from "../../src/checkpoint/weight-names.ts";
import { type ModelContent, type ModelTensor, writeModel } from "../../src/checkpoint/write-model.ts";
import { ModelError } from "../../src/errors/errors.ts";
import { type Gpt2Config, gpt2Configs } from "../../src/nn/models/gpt2-config.ts";
import {
  copyModel,
  modelFolder,
  safetensorsBytes,
  temporaryFolder,
  tensorsOf,
  tinyConfig,
  tinyTensors,
  zeroTensors,
} from "./files.ts";

const parent = temporaryFolder();
afterAll(() => rmSync(parent, { recursive: true }));

let folders = 0;
const folderWith = (files: Readonly<Record<string, unknown>>) => modelFolder(parent, `m${folders++}`, files);
const configJson = renderModelConfig(tinyConfig);

async function refusal(folder: string): Promise<string> {
  const error = await openModelFolder(folder).then(
    (opened) => opened.close(),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ModelError);
  return (error as ModelError).message;
}

describe("published sizes", () => {
  test.each([
    ["gpt2", 124_439_808],
    ["gpt2-medium", 354_823_168],
    ["gpt2-large", 774_030_080],
    ["gpt2-xl", 1_557_611_200],
  ] as const)("%s has %i parameters", (name, parameters) => {
    const shapes = [...gpt2TensorShapes(gpt2Configs[name]).values()];
    expect(shapes.reduce((sum, shape) => sum + shape.reduce((a, b) => a * b, 1), 0)).toBe(parameters);
  });
});

describe("config.json", () => {
  test("what is rendered is parsed to the same", () => {
    const probability = fc.double({ min: 0, max: 0.99, noNaN: true });
    const size = fc.integer({ min: 1, max: 1e6 });
    const config: fc.Arbitrary<Gpt2Config> = fc.record({
      vocabularySize: size,
      positions: size,
      hidden: fc.integer({ min: 1, max: 100 }).map((n) => 12 * n),
      layers: fc.integer({ min: 1, max: 65_536 }),
      heads: fc.constantFrom(1, 2, 3, 4, 6, 12),
      layerNormEpsilon: probability,
      initializerRange: probability,
      embeddingDropout: probability,
      attentionDropout: probability,
      residualDropout: probability,
      tied: fc.boolean(),
    });
    fc.assert(
      fc.property(config, (c) => {
        expect(parseGpt2Config(renderModelConfig(c), "config.json")).toEqual(c);
      }),
    );
  });

  test("the published file's many other keys are no matter, and what it leaves out is Hugging Face's default", () => {
    const text = `{ "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "bos_token_id": 50256,
      "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
      "summary_type": "cls_index", "task_specific_params": { "text-generation": { "do_sample": true } }, "vocab_size": 50257 }`;
    expect(parseGpt2Config(text, "config.json")).toEqual(gpt2Configs.gpt2);
  });

  const changed = (more: object) => JSON.stringify({ ...JSON.parse(configJson), ...more });
  test.each([
    ["another model", { model_type: "llama" }, /model_type: found "llama"; wanted "gpt2"/],
    ["another head", { architectures: ["GPT2ForSequenceClassification"] }, /architectures: found \["GPT2ForSeq/],
    [
      "another activation",
      { activation_function: "relu" },
      /activation_function: found "relu"; wanted gelu_new or gelu_pytorch_tanh/,
    ],
    ["another inner width", { n_inner: 17 }, /n_inner: found 17; wanted null or 4 \* n_embd \(16\)/],
    ["heads that do not divide", { n_head: 3 }, /n_embd: found 4; wanted a multiple of n_head \(3\)/],
    ["no layers", { n_layer: 0 }, /n_layer: found 0; wanted a positive whole number/],
    ["too many layers", { n_layer: 1e9 }, /n_layer: found 1000000000; wanted a positive whole number of at most 65536/],
    ["a size as text", { vocab_size: "7" }, /vocab_size: found "7"/],
    ["a size left out", { n_positions: undefined }, /n_positions: found nothing/],
    ["dropout of 1", { attn_pdrop: 1 }, /attn_pdrop: found 1; wanted a number from 0 to below 1/],
    ["dropout as text", { embd_pdrop: "0.1" }, /embd_pdrop: found "0\.1"/],
    ["unscaled attention", { scale_attn_weights: false }, /scale_attn_weights: found false; wanted true/],
    ["tied as text", { tie_word_embeddings: "yes" }, /tie_word_embeddings: found "yes"/],
  ])("%s", (_, more, wanted) => {
    expect(() => parseGpt2Config(changed(more), "dir/config.json")).toThrow(ModelError);
    expect(() => parseGpt2Config(changed(more), "dir/config.json")).toThrow(wanted);
  });

  test("every problem at once; not JSON; not an object", () => {
    expect(() => parseGpt2Config('{"model_type": "bert"}', "c.json")).toThrow(/bert[\s\S]*vocab_size[\s\S]*n_head/);
    expect(() => parseGpt2Config("{", "c.json")).toThrow(/c\.json is not JSON/);
    expect(() => parseGpt2Config("[]", "c.json")).toThrow(/found \[\]; wanted a JSON object/);
  });

  test("any JSON is a configuration or a ModelError", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.json(),
          fc.string(),
          fc.object().map((o) => changed(o)),
        ),
        (text) => {
          try {
            parseGpt2Config(text, "config.json");
          } catch (error) {
            expect(error).toBeInstanceOf(ModelError);
          }
        },
      ),
    );
  });
});

describe("weights", () => {
  const shapes = gpt2TensorShapes(tinyConfig);
  const counting: ModelContent<ModelTensor> = {
    config: tinyConfig,
    tensors: tensorsOf(tinyConfig),
    values: async function* ({ shape }) {
      yield Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => i);
    },
  };

  test("a folder that was written is read again, by either form of the names", async () => {
    const folder = join(parent, "new", "deep");
    await writeModel(folder, counting, defaultFormat);
    expect(readdirSync(folder).toSorted()).toEqual(["config.json", "model.safetensors"]);
    await using opened = await openModelFolder(folder);
    expect(opened.config).toEqual(tinyConfig);
    for (const name of ["transformer.h.1.mlp.c_fc.weight", "h.1.mlp.c_fc.weight"]) {
      expect(opened.weights!.has(name)).toBe(true);
      expect(opened.weights!.shape(name)).toEqual([4, 16]);
      expect([...(await opened.weights!.read(name, 10, 3))]).toEqual([10, 11, 12]);
    }
    expect(opened.weights!.has("lm_head.weight")).toBe(false);
    expect(() => opened.weights!.shape("h.2.ln_1.weight")).toThrow(/GPT-2 has no tensor h\.2/);
  });

  test("names without the prefix, mask buffers and a copied head, as published files have them", async () => {
    const plain = Object.fromEntries(
      Object.entries(tinyTensors()).map(([name, t]) => [name.replace("transformer.", ""), t]),
    );
    const file = zeroTensors({
      ...plain,
      "h.0.attn.bias": { shape: [1, 1, 5, 5] },
      "h.1.attn.bias": { shape: [1, 1, 5, 5], dtype: "U8" },
      "h.0.attn.masked_bias": { shape: [] },
      "lm_head.weight": { shape: [7, 4] },
    });
    await using opened = await openModelFolder(folderWith({ "config.json": configJson, "model.safetensors": file }));
    expect(opened.weights!.has("transformer.wte.weight")).toBe(true);
    expect(opened.weights!.has("h.0.attn.bias")).toBe(false);
    expect(await opened.weights!.read("transformer.wpe.weight", 0, 20)).toHaveLength(20);
  });

  test("an untied model needs its head", async () => {
    const config = { ...tinyConfig, tied: false };
    const files = { "config.json": renderModelConfig(config) };
    await using opened = await openModelFolder(
      folderWith({ ...files, "model.safetensors": zeroTensors(tinyTensors(config)) }),
    );
    expect(opened.weights!.shape("lm_head.weight")).toEqual([7, 4]);
    const message = await refusal(folderWith({ ...files, "model.safetensors": zeroTensors(tinyTensors()) }));
    expect(message).toMatch(/tensor lm_head\.weight is missing/);
  });

  test("a folder without weights is a model to train from scratch", async () => {
    await using opened = await openModelFolder(folderWith({ "config.json": configJson }));
    expect(opened.weights).toBeUndefined();
    expect(opened.config).toEqual(tinyConfig);
  });

  const halves = () => {
    const all = Object.entries(tinyTensors());
    return [Object.fromEntries(all.slice(0, 9)), Object.fromEntries(all.slice(9))] as const;
  };
  const sharded = (index?: (map: Record<string, unknown>) => void) => {
    const [one, two] = halves();
    const map: Record<string, unknown> = {};
    for (const name of Object.keys(one)) map[name] = "model-00001-of-00002.safetensors";
    for (const name of Object.keys(two)) map[name] = "model-00002-of-00002.safetensors";
    index?.(map);
    return {
      "config.json": configJson,
      "model.safetensors.index.json": { metadata: {}, weight_map: map },
      "model-00001-of-00002.safetensors": zeroTensors(one),
      "model-00002-of-00002.safetensors": zeroTensors(two),
    };
  };

  test("shards through their index", async () => {
    await using opened = await openModelFolder(folderWith(sharded()));
    for (const name of shapes.keys()) expect(await opened.weights!.read(name, 0, 2)).toHaveLength(2);
  });

  test("an index that names a missing shard, a tensor that is not there, or a path elsewhere", async () => {
    const { "model-00002-of-00002.safetensors": _, ...missing } = sharded();
    expect(await refusal(folderWith(missing))).toMatch(
      /index\.json names model-00002-of-00002\.safetensors, which is missing/,
    );
    const ghost = sharded((map) => {
      map["transformer.h.9.ln_1.weight"] = "model-00001-of-00002.safetensors";
    });
    expect(await refusal(folderWith(ghost))).toMatch(
      /says that model-00001-of-00002\.safetensors holds transformer\.h\.9/,
    );
    for (const path of ["../m0/model.safetensors", "/etc/passwd", "model.bin", 3, ["a"]]) {
      const elsewhere = sharded((map) => {
        map["transformer.wte.weight"] = path;
      });
      expect(await refusal(folderWith(elsewhere))).toMatch(
        /tensor transformer\.wte\.weight: found .*; wanted a \.safetensors file name/,
      );
    }
  });

  test("an index that is none", async () => {
    const index = (content: unknown) =>
      folderWith({ "config.json": configJson, "model.safetensors.index.json": content });
    expect(await refusal(index("{"))).toMatch(/index\.json is not JSON/);
    expect(await refusal(index("null"))).toMatch(/no weight_map/);
    expect(await refusal(index({ weight_map: 3 }))).toMatch(/no weight_map/);
    expect(await refusal(index({ weight_map: {} }))).toMatch(/no weight_map/);
  });

  const withFile = (bytes: Uint8Array) => folderWith({ "config.json": configJson, "model.safetensors": bytes });
  test("tensors of a wrong shape, missing, unknown, twice, of another type; a truncated file", async () => {
    const all = tinyTensors();
    const wrong = { ...all, "transformer.h.0.attn.c_attn.weight": { shape: [12, 4] } };
    expect(await refusal(withFile(zeroTensors(wrong)))).toMatch(
      /model\.safetensors: tensor transformer\.h\.0\.attn\.c_attn\.weight: found shape \[12, 4\]; wanted \[4, 12\]/,
    );
    const { "transformer.ln_f.bias": _, ...missing } = all;
    expect(await refusal(withFile(zeroTensors(missing)))).toMatch(/tensor transformer\.ln_f\.bias is missing/);
    const unknown = { ...all, "transformer.h.2.ln_1.weight": { shape: [4] } };
    expect(await refusal(withFile(zeroTensors(unknown)))).toMatch(
      /tensor transformer\.h\.2\.ln_1\.weight is no part of the GPT-2 model/,
    );
    const twice = { ...all, "ln_f.bias": { shape: [4] } };
    expect(await refusal(withFile(zeroTensors(twice)))).toMatch(/tensor ln_f\.bias is in .* too; wanted it once/);
    const bytes = { ...all, "transformer.ln_f.bias": { shape: [4], dtype: "U8" } };
    expect(await refusal(withFile(zeroTensors(bytes)))).toMatch(/ln_f\.bias: found dtype U8; wanted F32/);
    expect(await refusal(withFile(zeroTensors(all).subarray(0, -10)))).toMatch(/truncated/);
    expect(await refusal(withFile(safetensorsBytes({}, 0)))).toMatch(/wte\.weight is missing/);
  });

  test("no folder, a file, no config.json, a broken one, weights of another kind", async () => {
    expect(await refusal(join(parent, "none"))).toMatch(/none: no such folder; check --model/);
    const folder = folderWith({ "model.safetensors": zeroTensors(tinyTensors()) });
    expect(await refusal(join(folder, "model.safetensors"))).toMatch(/is a file; wanted a model folder/);
    expect(await refusal(folder)).toMatch(/has no config\.json; wanted a Hugging Face model folder/);
    expect(await refusal(folderWith({ "config.json": "{" }))).toMatch(/config\.json is not JSON/);
    const tensorflow = folderWith({ "config.json": configJson, "tf_model.h5": "x" });
    expect(await refusal(tensorflow)).toMatch(/has its weights in tf_model\.h5; wanted model\.safetensors/);
  });

  test("writing where a file stands", async () => {
    const path = join(parent, "plain-file");
    writeFileSync(path, "x");
    await expect(writeModel(path, counting, defaultFormat)).rejects.toBeInstanceOf(ModelError);
    expect(readFileSync(path, "utf8")).toBe("x");
  });
});

test("the oracle's folder, read and written, is the same weights", async () => {
  const oracle = new URL("../oracles/gpt2-tiny/model", import.meta.url).pathname;
  await using opened = await openModelFolder(oracle);
  expect(opened.config).toMatchObject({
    vocabularySize: 256,
    positions: 128,
    hidden: 64,
    layers: 3,
    heads: 4,
    tied: true,
  });
  const weights = opened.weights!;
  const shapes = gpt2TensorShapes(opened.config as Gpt2Config);
  const copy = join(parent, "copy");
  await copyModel(opened, copy);
  await using again = await openModelFolder(copy);
  expect(again.config).toEqual(opened.config);
  for (const [name, shape] of shapes) {
    const elements = shape.reduce((a, b) => a * b, 1);
    expect(Buffer.compare(...(await bothBytes(name, elements)))).toBe(0);
  }
  async function bothBytes(name: string, elements: number): Promise<[Buffer, Buffer]> {
    const [a, b] = [await weights.read(name, 0, elements), await again.weights!.read(name, 0, elements)];
    return [Buffer.from(a.buffer, a.byteOffset, a.byteLength), Buffer.from(b.buffer, b.byteOffset, b.byteLength)];
  }
});
