/** GPT-2's config.json as Hugging Face writes it, to and from Gpt2Config. */

import { ModelError } from "../errors/errors.ts";
import type { Gpt2Config } from "../nn/models/gpt2-config.ts";
import { ConfigReader, mostLayers, parseConfigRecord } from "./json-config.ts";

/** GELU by its tanh form, which GPT-2 was trained with; both names mean the same function. */
const activations = ["gelu_new", "gelu_pytorch_tanh"];

/** Settings that would make another network of the same weights, and the only value that this one has. */
const fixedSettings = {
  scale_attn_weights: true,
  scale_attn_by_inverse_layer_idx: false,
  add_cross_attention: false,
} as const;

/** Reads the text of a config.json; `path` is how errors name it. Throws ModelError with every problem found. */
export function parseGpt2Config(text: string, path: string): Gpt2Config {
  const record = parseConfigRecord(text, path);
  const read = new ConfigReader(record);
  const architectures = record.architectures ?? ["GPT2LMHeadModel"];
  read.check("model_type", record.model_type === "gpt2", '"gpt2"');
  const known = Array.isArray(architectures) && architectures.length === 1 && architectures[0] === "GPT2LMHeadModel";
  read.check("architectures", known, '["GPT2LMHeadModel"]');
  const activation = record.activation_function ?? "gelu_new";
  read.check("activation_function", activations.includes(activation as string), activations.join(" or "));
  for (const [key, only] of Object.entries(fixedSettings)) read.only(key, only);

  const config: Gpt2Config = {
    vocabularySize: read.count("vocab_size"),
    positions: read.count("n_positions"),
    hidden: read.count("n_embd"),
    layers: read.count("n_layer", undefined, mostLayers),
    heads: read.count("n_head"),
    layerNormEpsilon: read.number("layer_norm_epsilon", 1e-5, 1),
    initializerRange: read.number("initializer_range", 0.02, 10),
    embeddingDropout: read.number("embd_pdrop", 0.1, 1),
    attentionDropout: read.number("attn_pdrop", 0.1, 1),
    residualDropout: read.number("resid_pdrop", 0.1, 1),
    tied: read.flag("tie_word_embeddings", true),
  };
  read.check("n_embd", config.hidden % config.heads === 0, `a multiple of n_head (${config.heads})`);
  const inner = record.n_inner ?? 4 * config.hidden;
  read.check("n_inner", inner === 4 * config.hidden, `null or 4 * n_embd (${4 * config.hidden})`);
  const { problems } = read;
  if (problems.length > 0) throw new ModelError(`${path} is not a GPT-2 that can be used:\n  ${problems.join("\n  ")}`);
  return Object.freeze(config);
}

const publishedEndOfText = 50256;

/** A config.json that Hugging Face's GPT2LMHeadModel reads. */
export function gpt2Record(config: Gpt2Config): object {
  return {
    model_type: "gpt2",
    architectures: ["GPT2LMHeadModel"],
    activation_function: "gelu_new",
    vocab_size: config.vocabularySize,
    // What transformers takes where these are left out would be beyond the vocabulary.
    ...(config.vocabularySize <= publishedEndOfText && { bos_token_id: null, eos_token_id: null }),
    n_positions: config.positions,
    n_ctx: config.positions,
    n_embd: config.hidden,
    n_layer: config.layers,
    n_head: config.heads,
    n_inner: null,
    layer_norm_epsilon: config.layerNormEpsilon,
    initializer_range: config.initializerRange,
    embd_pdrop: config.embeddingDropout,
    attn_pdrop: config.attentionDropout,
    resid_pdrop: config.residualDropout,
    tie_word_embeddings: config.tied,
  };
}
