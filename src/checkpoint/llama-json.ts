/** The config.json of Llama's family as Hugging Face writes it, to and from LlamaConfig. */

import { ModelError } from "../errors/errors.ts";
import type { LlamaArchitecture, LlamaConfig, SlidingWindow } from "../nn/models/llama-config.ts";
import { ConfigReader, type JsonRecord, mostLayers, parseConfigRecord } from "./json-config.ts";
import { readRope, renderRopeScaling } from "./rope-json.ts";

/** What Hugging Face calls an architecture, and what it takes where a key is left out. */
interface Family {
  readonly className: string;
  readonly keyValueHeads: number | undefined;
  readonly headWidth: number | undefined;
  readonly positions: number;
  /** Left out, Mistral has a window and the others have none. */
  readonly window: "always" | "asked" | "never";
  /** Of the products of attention; undefined: `attention_bias` says. */
  readonly attentionBias: LlamaConfig["attentionBias"] | undefined;
  readonly hasFeedForwardBias: boolean;
  readonly normsQueryAndKey: boolean;
}

const llama: Family = {
  className: "LlamaForCausalLM",
  keyValueHeads: undefined,
  headWidth: undefined,
  positions: 2048,
  window: "never",
  attentionBias: undefined,
  hasFeedForwardBias: true,
  normsQueryAndKey: false,
};
const qwen2: Family = {
  ...llama,
  className: "Qwen2ForCausalLM",
  keyValueHeads: 32,
  positions: 32768,
  window: "asked",
  attentionBias: "queryKeyValue",
  hasFeedForwardBias: false,
};

const families: Readonly<Record<LlamaArchitecture, Family>> = {
  llama,
  mistral: {
    ...llama,
    className: "MistralForCausalLM",
    keyValueHeads: 8,
    positions: 4096 * 32,
    window: "always",
    attentionBias: "none",
    hasFeedForwardBias: false,
  },
  qwen2,
  qwen3: {
    ...qwen2,
    className: "Qwen3ForCausalLM",
    headWidth: 128,
    attentionBias: undefined,
    normsQueryAndKey: true,
  },
};

/** Left out by the files that Hugging Face writes for a Mistral of its first version. */
const windowLeftOut = 4096;

const specialTokens = ["bos_token_id", "eos_token_id", "pad_token_id"] as const;

/** Reads the text of a config.json; `path` is how errors name it. Throws ModelError with every problem found. */
export function parseLlamaConfig(text: string, path: string): LlamaConfig {
  const record = parseConfigRecord(text, path);
  const architecture = record.model_type as LlamaArchitecture;
  const family = families[architecture];
  const read = new ConfigReader(record);
  const architectures = record.architectures ?? [family.className];
  const known = Array.isArray(architectures) && architectures.length === 1 && architectures[0] === family.className;
  read.check("architectures", known, `["${family.className}"]`);
  read.only("hidden_act", "silu");
  read.only("partial_rotary_factor", 1);
  read.check("quantization_config", (record.quantization_config ?? null) === null, "weights that are not quantized");

  const [hidden, heads, layers] = [
    read.count("hidden_size"),
    read.count("num_attention_heads"),
    read.count("num_hidden_layers", undefined, mostLayers),
  ];
  const keyValueHeads = read.count("num_key_value_heads", family.keyValueHeads ?? heads);
  const headWidth = read.count("head_dim", family.headWidth ?? Math.max(1, Math.floor(hidden / heads)));
  read.check("num_key_value_heads", heads % keyValueHeads === 0, `a divisor of num_attention_heads (${heads})`);
  read.check("head_dim", headWidth % 2 === 0 && headWidth <= 256, "an even number up to 256");
  if ((record.head_dim ?? family.headWidth ?? null) === null)
    read.check("hidden_size", hidden % heads === 0, `a multiple of num_attention_heads (${heads})`);
  const positions = read.count("max_position_embeddings", family.positions);
  const rope = readRope(read, { positions, headWidth });
  const config: LlamaConfig = {
    architecture,
    vocabularySize: read.count("vocab_size"),
    positions,
    hidden,
    layers,
    heads,
    keyValueHeads,
    headWidth,
    feedForward: read.count("intermediate_size"),
    normEpsilon: read.number("rms_norm_eps", 1e-6, 1),
    initializerRange: read.number("initializer_range", 0.02, 10),
    attentionDropout: read.number("attention_dropout", 0, 1),
    attentionBias: family.attentionBias ?? (read.flag("attention_bias", false) ? "all" : "none"),
    feedForwardBias: family.hasFeedForwardBias && read.flag("mlp_bias", false),
    normsQueryAndKey: family.normsQueryAndKey,
    ...rope,
    slidingWindow: readWindow(read, family, layers),
    tied: read.flag("tie_word_embeddings", false),
    specialTokens: readSpecialTokens(record),
  };
  if (read.problems.length > 0)
    throw new ModelError(`${path} is not a ${architecture} model that can be used:\n  ${read.problems.join("\n  ")}`);
  return Object.freeze(config);
}

function readSpecialTokens(record: JsonRecord): LlamaConfig["specialTokens"] {
  const isId = (value: unknown): boolean => Number.isSafeInteger(value);
  const fits = (value: unknown): boolean =>
    value === null || isId(value) || (Array.isArray(value) && value.length > 0 && value.every(isId));
  return Object.fromEntries(
    specialTokens.filter((key) => key in record && fits(record[key])).map((key) => [key, record[key]]),
  ) as LlamaConfig["specialTokens"];
}

/** Which layers see a window only. Any order of kinds of layers but "from one layer on" is refused. */
function readWindow(read: ConfigReader, { window }: Family, layers: number): SlidingWindow | undefined {
  const { record } = read;
  const isAsked = window === "always" || (window === "asked" && read.flag("use_sliding_window", false));
  const isOn = isAsked && record.sliding_window !== null;
  const kinds = record.layer_types ?? undefined;
  let fromLayer = !isOn ? layers : window === "always" ? 0 : read.number("max_window_layers", 28, 2 ** 31);
  if (kinds !== undefined && window === "always") {
    const kind = isOn ? "sliding_attention" : "full_attention";
    const isAlike = Array.isArray(kinds) && kinds.every((other) => other === kind);
    read.check("layer_types", isAlike, `"${kind}" alone: sliding_window is that of every layer of a Mistral`);
  } else if (kinds !== undefined && window === "asked") {
    const isKnown = (kind: unknown): boolean => kind === "full_attention" || kind === "sliding_attention";
    const first = Array.isArray(kinds) ? kinds.indexOf("sliding_attention") : -1;
    fromLayer = first === -1 ? layers : first;
    const isOrdered =
      Array.isArray(kinds) &&
      kinds.length === layers &&
      kinds.every((kind, i) => isKnown(kind) && (kind === "sliding_attention") === i >= fromLayer);
    read.check("layer_types", isOrdered, `${layers} of "full_attention", or from one layer on "sliding_attention"`);
  }
  if (!isOn || fromLayer >= layers) return undefined;
  return { tokens: read.count("sliding_window", windowLeftOut), fromLayer };
}

/** A config.json that Hugging Face's classes read. */
export function llamaRecord(config: LlamaConfig): object {
  const { architecture, attentionBias, slidingWindow } = config;
  const { className, window, attentionBias: fixedBias, hasFeedForwardBias } = families[architecture];
  return {
    model_type: architecture,
    architectures: [className],
    ...config.specialTokens,
    vocab_size: config.vocabularySize,
    max_position_embeddings: config.positions,
    hidden_size: config.hidden,
    intermediate_size: config.feedForward,
    num_hidden_layers: config.layers,
    num_attention_heads: config.heads,
    num_key_value_heads: config.keyValueHeads,
    head_dim: config.headWidth,
    hidden_act: "silu",
    rms_norm_eps: config.normEpsilon,
    initializer_range: config.initializerRange,
    attention_dropout: config.attentionDropout,
    ...(fixedBias === undefined && { attention_bias: attentionBias === "all" }),
    ...(hasFeedForwardBias && { mlp_bias: config.feedForwardBias }),
    rope_theta: config.ropeTheta,
    rope_scaling: config.ropeScaling ? renderRopeScaling(config.ropeScaling) : null,
    ...(window === "always" && { sliding_window: slidingWindow?.tokens ?? null }),
    ...(window === "asked" && {
      use_sliding_window: slidingWindow !== undefined,
      sliding_window: slidingWindow?.tokens ?? null,
      max_window_layers: slidingWindow?.fromLayer ?? config.layers,
    }),
    tie_word_embeddings: config.tied,
  };
}
