import { describe, expect, test } from "vitest";
import { shapeOfModel } from "../../src/cli/planned-model.ts";
import { publishedConfig } from "../../src/nn/models/models.ts";
import { shapeOfHuggingFaceConfig } from "../../src/planner/huggingface-shape.ts";
import { publishedShape, publishedShapes } from "../../src/planner/published-shapes.ts";
import { shapeForParameters } from "../../src/planner/shape-for-parameters.ts";

// Counts as the models' weights have them.
const known: Readonly<Record<string, number>> = {
  gpt2: 124439808,
  "gpt2-medium": 354823168,
  "gpt2-large": 774030080,
  "gpt2-xl": 1557611200,
  "opt-1.3b": 1315758080,
  "opt-6.7b": 6658473984,
  "opt-13b": 12853473280,
  "opt-30b": 29974540288,
  "gpt-j-6b": 6050882784,
  "gpt-neox-20b": 20554567680,
  "bloom-176b": 176247271424,
  "falcon-7b": 6921720704,
  "llama-7b": 6738415616,
  "llama-13b": 13015864320,
  "llama-33b": 32528943616,
  "llama-65b": 65285660672,
  "llama-2-7b": 6738415616,
  "llama-2-70b": 68976648192,
  "llama-3-8b": 8030261248,
  "llama-3-70b": 70553706496,
  "mistral-7b": 7241732096,
  "qwen2.5-0.5b": 494032768,
  "qwen2.5-1.5b": 1543714304,
  "qwen2.5-3b": 3085938688,
  "qwen2.5-7b": 7615616512,
  "qwen2.5-14b": 14770033664,
  "qwen2.5-32b": 32763876352,
  "qwen2.5-72b": 72706203648,
};

describe("published shapes", () => {
  test("those that this engine trains are the shapes of the models it makes", () => {
    const both = publishedShapes.filter(({ name }) => publishedConfig(name));
    expect(both.length).toBeGreaterThan(15);
    for (const shape of both) expect(shapeOfModel(publishedConfig(shape.name)!, shape.name)).toEqual(shape);
  });

  test.each(Object.entries(known))("%s has %i parameters", (name, parameters) => {
    expect(publishedShape(name)?.parameters).toBe(parameters);
  });

  test("GPT-3's sizes are near their names", () => {
    const billions = {
      "gpt3-small": 0.125,
      "gpt3-xl": 1.3,
      "gpt3-2.7b": 2.7,
      "gpt3-6.7b": 6.7,
      "gpt3-13b": 13,
      "gpt3-175b": 175,
    };
    for (const [name, size] of Object.entries(billions))
      expect(publishedShape(name)!.parameters / (1e9 * size), name).toBeCloseTo(1, 1);
  });

  test("names are found in any case, and are unlike each other", () => {
    expect(publishedShape("Llama-3-8B")?.keyValueHeads).toBe(8);
    expect(publishedShape("llama-4")).toBeUndefined();
    expect(new Set(publishedShapes.map(({ name }) => name)).size).toBe(publishedShapes.length);
  });
});

describe("the GPT of a size", () => {
  test.each([
    [1.5e9, 48, 1600, 25, 1024],
    [124e6, 12, 768, 12, 1024],
    [6.7e9, 32, 4096, 32, 2048],
    [7e9, 32, 4096, 32, 2048],
    [13e9, 40, 5120, 40, 2048],
    [175e9, 96, 12288, 96, 2048],
    [1e12, 128, 25600, 160, 2048],
  ])("%d: %i layers, %i wide, %i heads", (parameters, layers, hidden, heads, positions) => {
    expect(shapeForParameters(parameters)).toMatchObject({ parameters, layers, hidden, heads, positions });
  });

  test("comes near to any size, and says what it is", () => {
    for (const size of [3e8, 1e9, 2.2e9, 3e9, 10e9, 20e9, 33e9, 70e9, 128e9, 300e9, 5e12]) {
      const { parameters, laidOutParameters, hidden, heads } = shapeForParameters(size);
      expect(parameters).toBe(size);
      expect(Math.abs(laidOutParameters / size - 1), String(size)).toBeLessThan(0.06);
      expect(hidden % heads).toBe(0);
    }
    expect(shapeForParameters(1.5e9).name).toBe(
      "a GPT of 1.5e9 parameters: 48 layers (GPT-2 XL's depth), 1600 wide, 25 heads",
    );
    expect(shapeForParameters(13e9).name).toContain("13e9 parameters");
    expect(shapeForParameters(124439808).name).toContain("124439808 parameters");
  });

  test("refuses what is no size", () => {
    for (const bad of [0, -1, Number.NaN, Number.POSITIVE_INFINITY])
      expect(() => shapeForParameters(bad)).toThrow(/wanted a positive number/);
  });
});

describe("a Hugging Face config.json", () => {
  test("gpt2", () => {
    const config = { model_type: "gpt2", n_layer: 48, n_embd: 1600, n_head: 25, n_positions: 1024, vocab_size: 50257 };
    expect(shapeOfHuggingFaceConfig(config)).toEqual({ ...publishedShape("gpt2-xl"), name: "gpt2" });
  });

  test("llama with grouped keys", () => {
    const config = {
      model_type: "llama",
      _name_or_path: "meta-llama/Meta-Llama-3-8B",
      num_hidden_layers: 32,
      hidden_size: 4096,
      num_attention_heads: 32,
      num_key_value_heads: 8,
      intermediate_size: 14336,
      vocab_size: 128256,
      max_position_embeddings: 8192,
      tie_word_embeddings: false,
    };
    const { name, ...shape } = publishedShape("llama-3-8b")!;
    expect(shapeOfHuggingFaceConfig(config)).toEqual({ ...shape, name: "meta-llama/Meta-Llama-3-8B" });
    expect(name).toBe("llama-3-8b");
  });

  // Each of a kind that spells or counts something differently.
  test.each([
    [
      "opt-1.3b",
      {
        model_type: "opt",
        num_hidden_layers: 24,
        hidden_size: 2048,
        num_attention_heads: 32,
        ffn_dim: 8192,
        vocab_size: 50272,
        max_position_embeddings: 2048,
        word_embed_proj_dim: 2048,
      },
    ],
    [
      "gpt-j-6b",
      {
        model_type: "gptj",
        n_layer: 28,
        n_embd: 4096,
        n_head: 16,
        n_inner: null,
        vocab_size: 50400,
        n_positions: 2048,
        tie_word_embeddings: false,
      },
    ],
    [
      "gpt-neox-20b",
      {
        model_type: "gpt_neox",
        num_hidden_layers: 44,
        hidden_size: 6144,
        num_attention_heads: 64,
        intermediate_size: 24576,
        vocab_size: 50432,
        max_position_embeddings: 2048,
        tie_word_embeddings: false,
      },
    ],
    ["bloom-176b", { model_type: "bloom", n_layer: 70, hidden_size: 14336, n_head: 112, vocab_size: 250880 }],
    [
      "falcon-7b",
      {
        model_type: "falcon",
        num_hidden_layers: 32,
        hidden_size: 4544,
        num_attention_heads: 71,
        multi_query: true,
        num_kv_heads: 71,
        new_decoder_architecture: false,
        parallel_attn: true,
        bias: false,
        vocab_size: 65024,
      },
    ],
    [
      "mistral-7b",
      {
        model_type: "mistral",
        num_hidden_layers: 32,
        hidden_size: 4096,
        num_attention_heads: 32,
        num_key_value_heads: 8,
        intermediate_size: 14336,
        vocab_size: 32000,
        max_position_embeddings: 32768,
      },
    ],
    [
      "qwen2.5-7b",
      {
        model_type: "qwen2",
        num_hidden_layers: 28,
        hidden_size: 3584,
        num_attention_heads: 28,
        num_key_value_heads: 4,
        intermediate_size: 18944,
        vocab_size: 152064,
        max_position_embeddings: 131072,
        tie_word_embeddings: false,
      },
    ],
  ])("%s", (name, config) => {
    expect(shapeOfHuggingFaceConfig(config).parameters).toBe(publishedShape(name)!.parameters);
  });

  test("qwen3, whose heads are wider than its width divided by them", () => {
    const config = {
      model_type: "qwen3",
      num_hidden_layers: 28,
      hidden_size: 1024,
      num_attention_heads: 16,
      num_key_value_heads: 8,
      head_dim: 128,
      intermediate_size: 3072,
      vocab_size: 151936,
      max_position_embeddings: 40960,
      tie_word_embeddings: true,
    };
    expect(shapeOfHuggingFaceConfig(config).parameters).toBe(596049920);
  });

  test("an unknown architecture: what is missing, and that a size will do", () => {
    expect(() => shapeOfHuggingFaceConfig({ model_type: "mamba", hidden_size: 768 }, "m/config.json")).toThrow(
      /m\/config\.json: model_type "mamba"; wanted one of gpt2, .*no num_hidden_layers, num_attention_heads, vocab_size.*--params/,
    );
    expect(() => shapeOfHuggingFaceConfig({})).toThrow(/no model_type/);
  });

  test("a known one with keys that are missing or wrong", () => {
    expect(() => shapeOfHuggingFaceConfig({ model_type: "llama", hidden_size: "wide" })).toThrow(
      /hidden_size: found "wide"; num_attention_heads is missing.*--params/,
    );
    expect(() => shapeOfHuggingFaceConfig({ model_type: "falcon", new_decoder_architecture: true })).toThrow(
      /Falcon-7B/,
    );
  });
});
