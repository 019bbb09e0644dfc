/** A Hugging Face config.json, parsed, as a shape. */
import { ModelError } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";
import { type ArchitectureName, architectures, shapeOf, type Widths } from "./layout.ts";
import type { TransformerShape } from "./shape.ts";

/** How an architecture spells what a shape needs; the first key that is there counts. */
interface Spelling {
  readonly layers: string;
  readonly hidden: string;
  readonly heads: string;
  readonly keyValueHeads?: string;
  readonly feedForward?: string;
  readonly positions: string;
  /** What `tie_word_embeddings` means where it is left out. */
  readonly tiedLeftOut: boolean;
}

const gptSpelling: Spelling = {
  layers: "n_layer",
  hidden: "n_embd",
  heads: "n_head",
  feedForward: "n_inner",
  positions: "n_positions",
  tiedLeftOut: true,
};

const llamaSpelling: Spelling = {
  layers: "num_hidden_layers",
  hidden: "hidden_size",
  heads: "num_attention_heads",
  keyValueHeads: "num_key_value_heads",
  feedForward: "intermediate_size",
  positions: "max_position_embeddings",
  tiedLeftOut: false,
};

const { keyValueHeads: _, ...withoutGroups } = llamaSpelling;

const spellings: Readonly<Record<ArchitectureName, Spelling>> = {
  gpt2: gptSpelling,
  gptj: { ...gptSpelling, tiedLeftOut: false },
  opt: { ...llamaSpelling, feedForward: "ffn_dim", tiedLeftOut: true },
  gpt_neox: llamaSpelling,
  bloom: { ...llamaSpelling, layers: "n_layer", heads: "n_head", positions: "seq_length", tiedLeftOut: true },
  falcon: { ...withoutGroups, tiedLeftOut: true },
  llama: llamaSpelling,
  mistral: llamaSpelling,
  qwen2: llamaSpelling,
  qwen3: llamaSpelling,
};

/** Settings that change the count in ways that no row of `architectures` has. */
const otherwise: Readonly<Partial<Record<ArchitectureName, (config: Config) => string | undefined>>> = {
  opt: ({ word_embed_proj_dim: wide, hidden_size: hidden }) =>
    wide !== undefined && wide !== hidden ? "word_embed_proj_dim differs from hidden_size" : undefined,
  falcon: ({ new_decoder_architecture: isNew, parallel_attn: isParallel, bias }) =>
    isNew === true || isParallel === false || bias === true
      ? "only Falcon-7B's kind (parallel attention, no biases, one key-value head) is known"
      : undefined,
};

/** A config.json as JSON.parse gives it. */
export type Config = Readonly<Record<string, unknown>>;

/** Positions of models that have no longest sequence of their own in their config.json (BLOOM, Falcon). */
const positionsLeftOut = 2048;

/** @param path how errors name the file. Errors: ModelError that says which keys are missing or unknown. */
export function shapeOfHuggingFaceConfig(config: Config, path = "config.json"): TransformerShape {
  const type = config.model_type;
  if (typeof type !== "string" || !Object.hasOwn(architectures, type)) throw unknownArchitecture(config, path);
  const architecture = type as ArchitectureName;
  const odd = otherwise[architecture]?.(config);
  if (odd !== undefined) throw new ModelError(`${printable(path)}: ${odd}; ${instead}`);
  const name = typeof config._name_or_path === "string" && config._name_or_path !== "" ? config._name_or_path : type;
  return shapeOf(name, readWidths(config, architecture, path), architectures[architecture]);
}

const instead = "give its size with --params instead: --params 7e9";

function unknownArchitecture(config: Config, path: string): ModelError {
  const found =
    config.model_type === undefined ? "no model_type" : `model_type ${printable(JSON.stringify(config.model_type))}`;
  const wanted = [llamaSpelling.layers, llamaSpelling.hidden, llamaSpelling.heads, "vocab_size"];
  const missing = wanted.filter((key) => config[key] === undefined);
  const keys = missing.length === 0 ? "" : `; it has no ${missing.join(", ")} either`;
  return new ModelError(
    `${printable(path)}: ${found}; wanted one of ${Object.keys(architectures).join(", ")}${keys}; ${instead}`,
  );
}

function readWidths(config: Config, name: ArchitectureName, path: string): Widths {
  const spelling = spellings[name];
  const problems: string[] = [];
  const count = (key: string): number => {
    const value = config[key];
    if (Number.isSafeInteger(value) && (value as number) > 0) return value as number;
    problems.push(value === undefined ? `${key} is missing` : `${key}: found ${printable(JSON.stringify(value))}`);
    return 1;
  };
  const countOr = (key: string | undefined, leftOut: number): number =>
    key === undefined || config[key] === undefined || config[key] === null ? leftOut : count(key);

  const hidden = count(spelling.hidden);
  const heads = count(spelling.heads);
  // Falcon-7B's file has num_kv_heads 71, which counts only where multi_query is false.
  const ownHeads = name === "falcon" && config.multi_query !== false ? 1 : heads;
  const widths: Widths = {
    layers: count(spelling.layers),
    hidden,
    heads,
    keyValueHeads: countOr(spelling.keyValueHeads, ownHeads),
    headWidth: countOr("head_dim", hidden / heads),
    feedForward: architectures[name].isGated ? count("intermediate_size") : countOr(spelling.feedForward, 4 * hidden),
    vocabulary: count("vocab_size"),
    positions:
      architectures[name].extraPositions === undefined
        ? countOr(spelling.positions, positionsLeftOut)
        : count(spelling.positions),
    isTied: (config.tie_word_embeddings ?? spelling.tiedLeftOut) === true,
  };
  if (problems.length > 0)
    throw new ModelError(`${printable(path)}: ${problems.join("; ")}; wanted positive whole numbers; or ${instead}`);
  return widths;
}
