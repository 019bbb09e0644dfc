/** GPT-2's config.json as Hugging Face writes it, to and from Gpt2Config. */

import { ModelError } from "../errors/errors.ts";
import type { Gpt2Config } from "../nn/models/gpt2-config.ts";
import { describeJson } from "./describe.ts";

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
  const record = parseRecord(text, path);
  const problems: string[] = [];
  const check = (key: string, fits: boolean, wanted: string) => {
    if (!fits) problems.push(`${key}: found ${describeJson(record[key])}; wanted ${wanted}`);
  };
  const count = (key: string): number => {
    const value = record[key];
    const fits = Number.isSafeInteger(value) && (value as number) > 0;
    check(key, fits, "a positive whole number");
    return fits ? (value as number) : 1;
  };
  const number = (key: string, leftOut: number, below: number): number => {
    const value = record[key] ?? leftOut;
    const fits = typeof value === "number" && value >= 0 && value < below;
    check(key, fits, `a number from 0 to below ${below}`);
    return fits ? value : leftOut;
  };

  const architectures = record.architectures ?? ["GPT2LMHeadModel"];
  check("model_type", record.model_type === "gpt2", '"gpt2", the only architecture of this version');
  const known = Array.isArray(architectures) && architectures.length === 1 && architectures[0] === "GPT2LMHeadModel";
  check("architectures", known, '["GPT2LMHeadModel"]');
  const activation = record.activation_function ?? "gelu_new";
  check("activation_function", activations.includes(activation as string), activations.join(" or "));
  for (const [key, only] of Object.entries(fixedSettings)) check(key, (record[key] ?? only) === only, String(only));
  const tied = record.tie_word_embeddings ?? true;
  check("tie_word_embeddings", typeof tied === "boolean", "true or false");

  const config: Gpt2Config = {
    vocabularySize: count("vocab_size"),
    positions: count("n_positions"),
    hidden: count("n_embd"),
    layers: count("n_layer"),
    heads: count("n_head"),
    layerNormEpsilon: number("layer_norm_epsilon", 1e-5, 1),
    initializerRange: number("initializer_range", 0.02, 10),
    embeddingDropout: number("embd_pdrop", 0.1, 1),
    attentionDropout: number("attn_pdrop", 0.1, 1),
    residualDropout: number("resid_pdrop", 0.1, 1),
    tied: tied === true,
  };
  check("n_embd", config.hidden % config.heads === 0, `a multiple of n_head (${config.heads})`);
  const inner = record.n_inner ?? 4 * config.hidden;
  check("n_inner", inner === 4 * config.hidden, `null or 4 * n_embd (${4 * config.hidden})`);
  if (problems.length > 0) throw new ModelError(`${path} is not a GPT-2 that can be used:\n  ${problems.join("\n  ")}`);
  return Object.freeze(config);
}

/** The text of a config.json that Hugging Face's GPT2LMHeadModel reads. */
export function renderGpt2Config(config: Gpt2Config): string {
  const record = {
    model_type: "gpt2",
    architectures: ["GPT2LMHeadModel"],
    activation_function: "gelu_new",
    vocab_size: config.vocabularySize,
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
    torch_dtype: "float32",
  };
  return `${JSON.stringify(record, undefined, 2)}\n`;
}

function parseRecord(text: string, path: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new ModelError(`${path} is not JSON: ${(error as Error).message}`, { cause: error });
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new ModelError(`${path}: found ${describeJson(value)}; wanted a JSON object with model_type "gpt2"`);
}
