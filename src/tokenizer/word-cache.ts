/**
 * The library's byte-level BPE with the words of a text remembered: a language has few of them, and merging a word's bytes takes a
 * hundred times as long as looking it up. Only for the pipeline that GPT-2, Llama 3, Qwen and our own tokenizers have: perhaps NFC,
 * words by one pattern, bytes, merges.
 */

import { byteCharacters } from "./byte-level.ts";

/** The parts of the library's objects that matter here. */
export interface Pipeline {
  readonly normalizer: { readonly config?: { readonly type?: string } } | null;
  readonly pre_tokenizer: PreTokenizer | null;
  readonly model: ((words: readonly string[]) => readonly string[]) & {
    readonly config?: { readonly type?: string };
    readonly tokens_to_ids: ReadonlyMap<string, number>;
    readonly unk_token_id?: number;
  };
}

interface PreTokenizer {
  readonly config?: PreTokenizerConfig;
  readonly pattern?: RegExp;
  /** Of a sequence. */
  readonly tokenizers?: readonly (PreTokenizer | null)[];
}

interface PreTokenizerConfig {
  readonly type?: string;
  readonly behavior?: string;
  readonly invert?: boolean;
  readonly use_regex?: boolean;
  readonly add_prefix_space?: boolean;
  readonly pattern?: { readonly Regex?: string };
}

/** A few tens of megabytes; when it is full it begins anew. */
const mostWords = 200_000;
/** What is longer is seldom seen twice. */
const longestWord = 64;

export class WordCache {
  readonly #model: Pipeline["model"];
  readonly #pattern: RegExp;
  readonly #isNormalized: boolean;
  /** Any added token; a text with one is left to the library. */
  readonly #added: RegExp | undefined;
  readonly #ids = new Map<string, readonly number[]>();

  private constructor({ model, normalizer }: Pipeline, pattern: RegExp, addedTokens: readonly string[]) {
    this.#model = model;
    this.#pattern = pattern;
    this.#isNormalized = normalizer !== null;
    const alternatives = addedTokens.map((token) => token.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
    this.#added = alternatives.length === 0 ? undefined : new RegExp(alternatives.join("|"), "u");
  }

  /** Undefined for a tokenizer of another kind. */
  static of(pipeline: Pipeline, addedTokens: readonly string[]): WordCache | undefined {
    const { normalizer, model, pre_tokenizer } = pipeline;
    const isPlain = normalizer === null || normalizer.config?.type === "NFC";
    const pattern = patternOf(pre_tokenizer);
    if (!isPlain || model.config?.type !== "BPE" || pattern === undefined) return undefined;
    return new WordCache(pipeline, pattern, addedTokens);
  }

  /** Undefined for a text that the library has to look at. */
  encode(given: string): Uint32Array | undefined {
    const text = this.#isNormalized ? given.normalize("NFC") : given;
    if (this.#added?.test(given) || this.#added?.test(text)) return undefined;
    const ids: number[] = [];
    let end = 0;
    for (const match of text.matchAll(this.#pattern)) {
      // A pattern may leave out what lies between its matches; that is a word too.
      if (match.index > end) this.#append(text.slice(end, match.index), ids);
      if (match[0] !== "") this.#append(match[0], ids);
      end = match.index + match[0].length;
    }
    if (end < text.length) this.#append(text.slice(end), ids);
    return Uint32Array.from(ids);
  }

  #append(word: string, ids: number[]): void {
    for (const id of this.#ids.get(word) ?? this.#idsOf(word)) ids.push(id);
  }

  #idsOf(word: string): readonly number[] {
    let characters = "";
    for (const byte of Buffer.from(word)) characters += byteCharacters[byte];
    const { tokens_to_ids: idOf, unk_token_id: unknown } = this.#model;
    const ids = this.#model([characters]).map((token) => idOf.get(token) ?? unknown!);
    if (word.length > longestWord) return ids;
    if (this.#ids.size >= mostWords) this.#ids.clear();
    this.#ids.set(word, ids);
    return ids;
  }
}

/** The pattern that words follow, where nothing else cuts or changes text before it becomes bytes. */
function patternOf(part: PreTokenizer | null): RegExp | undefined {
  const [first, second, ...more] = part?.tokenizers ?? [part];
  const bytes = second ?? first;
  if (more.length > 0 || bytes?.config?.type !== "ByteLevel" || bytes.config.add_prefix_space) return undefined;
  const cutsWords = bytes.config.use_regex ?? true;
  if (!second) return cutsWords ? bytes.pattern : undefined;
  const { type, behavior, invert, pattern } = first?.config ?? {};
  const isSplit = type === "Split" && behavior === "Isolated" && !invert && pattern?.Regex !== undefined;
  return isSplit && !cutsWords ? first?.pattern : undefined;
}
