// Folders of Llama's family: what config.json may say and what not, names and shapes of tensors, and the way back.
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { parseModelConfig, renderModelConfig, tensorNamesOf } from "../../src/checkpoint/architectures.ts";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { ModelError } from "../../src/errors/errors.ts";
import { describeModel } from "../../src/nn/describe.ts";
import type { LlamaConfig, RopeScaling } from "../../src/nn/models/llama-config.ts";
import { llamaConfigs } from "../../src/nn/models/llama-published.ts";
import { createModel, publishedConfig } from "../../src/nn/models/models.ts";
import { copyModel, modelFolder, safetensorsBytes, temporaryFolder, zeroTensors } from "./files.ts";

const parent = temporaryFolder();
afterAll(() => rmSync(parent, { recursive: true }));
const oracles = fileURLToPath(new URL("../oracles/llama-family/", import.meta.url));
const kinds = readdirSync(oracles);

const parse = (record: object) => parseModelConfig(JSON.stringify(record), "dir/config.json") as LlamaConfig;
const tiny = {
  model_type: "llama",
  vocab_size: 7,
  hidden_size: 8,
  intermediate_size: 6,
  num_hidden_layers: 2,
  num_attention_heads: 4,
};

describe("published sizes", () => {
  test.each([
    ["llama-2-7b", 6_738_415_616],
    ["llama-2-13b", 13_015_864_320],
    ["llama-2-70b", 68_976_648_192],
    ["llama-3-8b", 8_030_261_248],
    ["llama-3.1-70b", 70_553_706_496],
    ["llama-3.2-1b", 1_235_814_400],
    ["llama-3.2-3b", 3_212_749_824],
    ["mistral-7b", 7_241_732_096],
    ["tinyllama-1.1b", 1_100_048_384],
    ["smollm-135m", 134_515_008],
    ["smollm-360m", 361_821_120],
    ["smollm2-1.7b", 1_711_376_384],
    ["qwen2.5-0.5b", 494_032_768],
    ["qwen2.5-72b", 72_706_203_648],
    ["qwen3-0.6b", 596_049_920],
    ["qwen3-8b", 8_190_735_360],
  ])("%s has %i parameters", (name, parameters) => {
    const shapes = [...tensorNamesOf(publishedConfig(name.toUpperCase())!).shapes.values()];
    expect(shapes.reduce((sum, shape) => sum + shape.reduce((a, b) => a * b, 1), 0)).toBe(parameters);
  });
});

/** As many of longrope's factors as heads have pairs. */
function withFactors(config: LlamaConfig): LlamaConfig {
  const { ropeScaling, headWidth } = config;
  if (ropeScaling?.type !== "longrope") return config;
  const repeated = (factors: readonly number[]) => Array.from({ length: headWidth / 2 }, (_, i) => factors[i % 2]!);
  const [shortFactors, longFactors] = [repeated(ropeScaling.shortFactors), repeated(ropeScaling.longFactors)];
  return { ...config, ropeScaling: { ...ropeScaling, shortFactors, longFactors } };
}

describe("config.json of Llama's family", () => {
  test.each(Object.keys(llamaConfigs))("%s: what is rendered is parsed to the same", (name) => {
    expect(parse(JSON.parse(renderModelConfig(llamaConfigs[name]!)))).toEqual(llamaConfigs[name]);
  });

  test("any setting that there is", () => {
    const size = fc.integer({ min: 1, max: 1e6 });
    const factor = fc.double({ min: 1, max: 1000, noNaN: true });
    const scaling: fc.Arbitrary<RopeScaling | undefined> = fc.oneof(
      fc.constant(undefined),
      fc.record({ type: fc.constant("linear" as const), factor }),
      fc.record({
        type: fc.constant("llama3" as const),
        factor,
        lowFrequencyFactor: fc.constant(1),
        highFrequencyFactor: fc.constant(4),
        originalPositions: size,
      }),
      fc.record({
        type: fc.constant("yarn" as const),
        factor,
        originalPositions: size,
        betaFast: factor,
        betaSlow: factor,
        attentionFactor: factor,
      }),
      fc.record({
        type: fc.constant("longrope" as const),
        factor,
        originalPositions: fc.integer({ min: 2, max: 1e6 }),
        shortFactors: fc.constant([1, 1.5]),
        longFactors: fc.constant([2, 64.25]),
        attentionFactor: factor,
      }),
    );
    const common = {
      vocabularySize: size,
      positions: size,
      hidden: size,
      layers: fc.integer({ min: 3, max: 99 }),
      heads: fc.constantFrom(4, 8, 12),
      keyValueHeads: fc.constantFrom(1, 2, 4),
      headWidth: fc.integer({ min: 1, max: 128 }).map((n) => 2 * n),
      feedForward: size,
      normEpsilon: fc.double({ min: 0, max: 0.99, noNaN: true }),
      initializerRange: fc.double({ min: 0, max: 0.99, noNaN: true }),
      attentionDropout: fc.double({ min: 0, max: 0.99, noNaN: true }),
      ropeTheta: fc.double({ min: 1, max: 1e7, noNaN: true }),
      ropeScaling: scaling,
      tied: fc.boolean(),
      specialTokens: fc.constantFrom({}, { bos_token_id: 1, eos_token_id: [2, 3], pad_token_id: null }),
    };
    const bias = fc.constantFrom("all" as const, "none" as const);
    const window = (fromLayer: fc.Arbitrary<number>) =>
      fc.option(fc.record({ tokens: size, fromLayer }), { nil: undefined });
    const rest = { feedForwardBias: fc.constant(false), normsQueryAndKey: fc.constant(false) };
    const config: fc.Arbitrary<LlamaConfig> = fc.oneof(
      fc.record({
        ...common,
        ...rest,
        architecture: fc.constant("llama" as const),
        attentionBias: bias,
        feedForwardBias: fc.boolean(),
        slidingWindow: fc.constant(undefined),
      }),
      fc.record({
        ...common,
        ...rest,
        architecture: fc.constant("mistral" as const),
        attentionBias: fc.constant("none" as const),
        slidingWindow: window(fc.constant(0)),
      }),
      fc.record({
        ...common,
        ...rest,
        architecture: fc.constant("qwen2" as const),
        attentionBias: fc.constant("queryKeyValue" as const),
        slidingWindow: window(fc.integer({ min: 0, max: 2 })),
      }),
      fc.record({
        ...common,
        ...rest,
        architecture: fc.constant("qwen3" as const),
        attentionBias: bias,
        normsQueryAndKey: fc.constant(true),
        slidingWindow: window(fc.integer({ min: 0, max: 2 })),
      }),
    );
    fc.assert(
      fc.property(config, (c) => {
        const fitting = withFactors(c);
        expect(parse(JSON.parse(renderModelConfig(fitting)))).toEqual(fitting);
      }),
    );
  });

  test("what is left out is Hugging Face's default, of each kind its own", () => {
    expect(parse(tiny)).toMatchObject({
      positions: 2048,
      keyValueHeads: 4,
      headWidth: 2,
      ropeTheta: 10000,
      tied: false,
    });
    expect(parse(tiny)).toMatchObject({ normEpsilon: 1e-6, attentionBias: "none", slidingWindow: undefined });
    const heads = { num_attention_heads: 8, hidden_size: 16 };
    expect(parse({ ...tiny, ...heads, model_type: "mistral" })).toMatchObject({
      keyValueHeads: 8,
      positions: 131072,
      slidingWindow: { tokens: 4096, fromLayer: 0 },
    });
    expect(parse({ ...tiny, ...heads, model_type: "mistral", sliding_window: null }).slidingWindow).toBeUndefined();
    const qwen = { ...tiny, hidden_size: 64, num_attention_heads: 32 };
    expect(parse({ ...qwen, model_type: "qwen2" })).toMatchObject({
      keyValueHeads: 32,
      attentionBias: "queryKeyValue",
    });
    expect(parse({ ...qwen, model_type: "qwen3" })).toMatchObject({ headWidth: 128, normsQueryAndKey: true });
  });

  test("rope_parameters of newer files, and the older word for a rule", () => {
    const scaled = { rope_type: "linear", factor: 4, rope_theta: 500 };
    expect(parse({ ...tiny, rope_parameters: scaled })).toMatchObject({
      ropeTheta: 500,
      ropeScaling: { type: "linear", factor: 4 },
    });
    const dynamic = parse({ ...tiny, rope_scaling: { type: "dynamic", factor: 2 } });
    expect(dynamic.ropeScaling).toEqual({ type: "dynamic", factor: 2 });
    expect(parse(JSON.parse(renderModelConfig(dynamic)))).toEqual(dynamic);
    expect(parse({ ...tiny, rope_scaling: { type: "linear", factor: 2 } }).ropeScaling).toEqual({
      type: "linear",
      factor: 2,
    });
    expect(parse({ ...tiny, rope_parameters: { rope_type: "default", rope_theta: 7 } })).toMatchObject({
      ropeTheta: 7,
      ropeScaling: undefined,
    });
  });

  test("longrope: what is left out follows from the positions, and original positions beside the section count", () => {
    const scaling = { rope_type: "longrope", short_factor: [1], long_factor: [4] };
    const common = { ...tiny, max_position_embeddings: 4096 };
    const found = (more: object, outside = {}) =>
      parse({ ...common, ...outside, rope_scaling: { ...scaling, ...more } }).ropeScaling;
    const wanted = { type: "longrope", factor: 4, originalPositions: 1024, shortFactors: [1], longFactors: [4] };
    // 4 times 2^10: the root of 1 + 2 / 10.
    const computed = { ...wanted, attentionFactor: expect.closeTo(Math.sqrt(1.2), 12) };
    expect(found({ original_max_position_embeddings: 1024 })).toEqual(computed);
    expect(found({ original_max_position_embeddings: 9 }, { original_max_position_embeddings: 1024 })).toEqual(
      computed,
    );
    const given = { original_max_position_embeddings: 1024, factor: 8, attention_factor: 1.5 };
    expect(found(given)).toEqual({ ...wanted, factor: 8, attentionFactor: 1.5 });
    expect(found({})).toMatchObject({ factor: 1, originalPositions: 4096, attentionFactor: 1 });
  });

  test("a window of layers, by either of the two ways to say it", () => {
    const qwen = { ...tiny, model_type: "qwen2", num_key_value_heads: 2, use_sliding_window: true, sliding_window: 16 };
    expect(parse({ ...qwen, max_window_layers: 1 }).slidingWindow).toEqual({ tokens: 16, fromLayer: 1 });
    expect(parse({ ...qwen, max_window_layers: 2 }).slidingWindow).toBeUndefined();
    const kinds = ["full_attention", "sliding_attention"];
    expect(parse({ ...qwen, layer_types: kinds }).slidingWindow).toEqual({ tokens: 16, fromLayer: 1 });
    expect(() => parse({ ...qwen, layer_types: kinds.toReversed() })).toThrow(/layer_types: found .*from one layer on/);
    expect(() => parse({ ...qwen, layer_types: ["full_attention", "chunked_attention"] })).toThrow(/layer_types/);
    expect(parse({ ...qwen, max_window_layers: 0, sliding_window: null }).slidingWindow).toBeUndefined();
  });

  test("a Mistral's window is that of all its layers, as transformers has it whatever layer_types says", () => {
    const mistral = { ...tiny, model_type: "mistral", num_key_value_heads: 2, sliding_window: 16 };
    const alike = (kind: string) => ({ layer_types: [kind, kind] });
    expect(parse({ ...mistral, ...alike("sliding_attention") }).slidingWindow).toEqual({ tokens: 16, fromLayer: 0 });
    expect(() => parse({ ...mistral, ...alike("full_attention") })).toThrow(/layer_types: found .*sliding_attention/);
    const full = { ...mistral, sliding_window: null };
    expect(parse({ ...full, ...alike("full_attention") }).slidingWindow).toBeUndefined();
    expect(() => parse({ ...full, layer_types: ["full_attention", "sliding_attention"] })).toThrow(/layer_types/);
  });

  test.each([
    ["an unknown kind", { model_type: "mamba" }, /model_type: found "mamba"; wanted one of "gpt2", "llama", "mistral"/],
    ["another head", { architectures: ["LlamaForSequenceClassification"] }, /architectures.*\["LlamaForCausalLM"\]/],
    ["another activation", { hidden_act: "gelu" }, /hidden_act: found "gelu"; wanted "silu"/],
    ["quantized weights", { quantization_config: { bits: 4 } }, /quantization_config.*not quantized/],
    ["a part of each head turned", { partial_rotary_factor: 0.5 }, /partial_rotary_factor: found 0.5; wanted 1/],
    ["heads that do not group", { num_key_value_heads: 3 }, /num_key_value_heads: found 3; wanted a divisor/],
    ["heads of an odd width", { head_dim: 3 }, /head_dim: found 3; wanted an even number/],
    ["a width that heads do not divide", { hidden_size: 9 }, /hidden_size: found 9; wanted a multiple of/],
    [
      "longrope without its factors",
      { rope_scaling: { rope_type: "longrope", short_factor: [1], long_factor: "x" } },
      /rope_scaling.long_factor: found "x"; wanted 1 positive numbers, one for each pair/,
    ],
    [
      "longrope with factors for other heads",
      { rope_scaling: { rope_type: "longrope", short_factor: [1, 2], long_factor: [1] } },
      /rope_scaling.short_factor: found \[1, 2\]; wanted 1 positive/,
    ],
    [
      "an unknown rule",
      { rope_scaling: { rope_type: "ntk" } },
      /found "ntk"; wanted one of default, linear, dynamic, llama3, yarn, longrope/,
    ],
    ["a rule without its factor", { rope_scaling: { type: "linear" } }, /rope_scaling.factor: found nothing/],
    [
      "a key that a rule has not",
      { rope_scaling: { type: "linear", factor: 2, beta: 1 } },
      /rope_scaling.beta: found 1/,
    ],
    [
      "frequencies the wrong way round",
      {
        rope_scaling: {
          ...{ rope_type: "llama3", factor: 8, original_max_position_embeddings: 32 },
          ...{ low_freq_factor: 4, high_freq_factor: 1 },
        },
      },
      /high_freq_factor: found 1; wanted more than low_freq_factor \(4\)/,
    ],
    ["bias as text", { attention_bias: "yes" }, /attention_bias: found "yes"; wanted true or false/],
    ["a size left out", { vocab_size: undefined }, /vocab_size: found nothing/],
  ])("%s is refused by name", (_, more, wanted) => {
    expect(() => parse({ ...tiny, ...more })).toThrow(ModelError);
    expect(() => parse({ ...tiny, ...more })).toThrow(wanted);
  });

  test("any JSON is a configuration or a ModelError", () => {
    const changed = fc.object().map((o) => ({ ...tiny, ...o }));
    const keyed = fc.record({ rope_scaling: fc.anything(), layer_types: fc.anything(), head_dim: fc.anything() });
    const types = fc.constantFrom("llama", "mistral", "qwen2", "qwen3");
    const odd = fc.tuple(changed, keyed, types).map(([a, b, model_type]) => ({ ...a, ...b, model_type }));
    fc.assert(
      fc.property(odd, (record) => {
        try {
          parse(record);
        } catch (error) {
          expect(error).toBeInstanceOf(ModelError);
        }
      }),
    );
  });
});

describe("tensors", () => {
  test.each(kinds)("%s: the module's parameters are the file's tensors, by name and shape", async (name) => {
    await using opened = await openModelFolder(join(oracles, name));
    const { description } = describeModel(createModel(opened.config));
    const found = new Map(description.units.flatMap((u) => u.parameters.map((p) => [p.name, p.shape] as const)));
    const wanted = tensorNamesOf(opened.config).shapes;
    expect([...found.keys()].toSorted()).toEqual([...wanted.keys()].toSorted());
    for (const [tensor, shape] of wanted) expect(found.get(tensor)).toEqual(shape);
    // Every block, and the rest.
    expect(description.units.map((u) => u.name)).toEqual(["(root)", "model.layers.0", "model.layers.1"]);
  });

  test.each(kinds)("%s: written back, it has the same tensors and says the same", async (name) => {
    await using opened = await openModelFolder(join(oracles, name));
    const copy = join(parent, name);
    await copyModel(opened, copy);
    await using again = await openModelFolder(copy);
    expect(again.config).toEqual(opened.config);
    const stored = new Set<string>();
    for (const file of readdirSync(join(oracles, name)).filter((f) => f.endsWith(".safetensors"))) {
      await using original = await openSafetensors(join(oracles, name, file));
      for (const tensor of original.tensors.keys()) stored.add(tensor);
    }
    await using written = await openSafetensors(join(copy, "model.safetensors"));
    expect([...written.tensors.keys()].toSorted()).toEqual([...stored].toSorted());
    // What is said to transformers is what it said, but for what has no meaning here.
    const [before, after] = [join(oracles, name), copy].map((f) =>
      JSON.parse(readFileSync(join(f, "config.json"), "utf8")),
    );
    for (const key of Object.keys(after).filter(
      (k) => k in before && k !== "max_window_layers" && k !== "rope_scaling",
    ))
      expect(after[key], key).toEqual(before[key]);
  });

  const shapes = Object.fromEntries([...tensorNamesOf(parse(tiny)).shapes].map(([name, shape]) => [name, { shape }]));
  let folders = 0;
  const folderWith = (files: Readonly<Record<string, { readonly shape: readonly number[] }>>) =>
    modelFolder(parent, `f${folders++}`, { "config.json": tiny, "model.safetensors": zeroTensors(files) });

  test("names without their prefix, and the frequencies that old files hold, are no matter", async () => {
    const bare = Object.entries(shapes).map(([name, entry]) => [name.replace(/^model\./, ""), entry]);
    const frequencies = { "layers.0.self_attn.rotary_emb.inv_freq": { shape: [1] } };
    await using opened = await openModelFolder(folderWith({ ...Object.fromEntries(bare), ...frequencies }));
    expect(opened.weights!.has("model.layers.1.mlp.up_proj.weight")).toBe(true);
    expect(opened.weights!.shape("layers.1.mlp.up_proj.weight")).toEqual([6, 8]);
  });

  test.each([
    ["a tensor is missing", "model.norm.weight", undefined, /tensor model\.norm\.weight is missing/],
    ["the head is missing", "lm_head.weight", undefined, /tensor lm_head\.weight is missing/],
    ["another shape", "model.norm.weight", [9], /model\.norm\.weight: found shape \[9\]; wanted \[8\]/],
    ["a bias that there is not", "model.layers.0.mlp.up_proj.bias", [6], /up_proj\.bias is no part of the llama model/],
  ])("%s", async (_, name, shape, wanted) => {
    const { [name]: _changed, ...rest } = shapes;
    const folder = folderWith(shape ? { ...rest, [name]: { shape } } : rest);
    await expect(openModelFolder(folder)).rejects.toThrow(wanted);
  });

  test("a file cut off is refused", async () => {
    const cut = safetensorsBytes({ "model.norm.weight": { dtype: "F32", shape: [8], data_offsets: [0, 32] } }, 16);
    const folder = modelFolder(parent, "cut", { "config.json": tiny, "model.safetensors": cut });
    await expect(openModelFolder(folder)).rejects.toThrow(/truncated/);
  });
});
