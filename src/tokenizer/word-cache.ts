/**
 * The library's byte-level BPE with the words of a text remembered: a language has few of them, and merging a word's bytes takes a
 * hundred times as long as looking it up. Only for the pipeline that GPT-2, Llama 3, Qwen and our own tokenizers have: perhaps NFC,
 * words by one pattern, bytes, merges.
 */

import { type AddedToken, AddedTokens } from "./added-tokens.ts";
import { type BpeModel, BytePairs, characters } from "./byte-pairs.ts";
import { ownCopy } from "./own-copy.ts";

/** The parts of the library's objects that matter here. */
export interface Pipeline {
  readonly normalizer: { readonly config?: { readonly type?: string } } | null;
  readonly pre_tokenizer: PreTokenizer | null;
  readonly model: ((words: readonly string[]) => readonly string[]) & BpeModel & { readonly unk_token_id?: number };
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
  /** Undefined where the library has to merge. */
  readonly #pairs: BytePairs | undefined;
  readonly #pattern: RegExp;
  readonly #isNormalized: boolean;
  readonly #added: AddedTokens;
  readonly #ids = new Map<string, readonly number[]>();
  /** Of the text at hand; kept, since texts are about equally long. */
  #found = new Uint32Array(1024);

  private constructor({ model, normalizer }: Pipeline, pattern: RegExp, addedTokens: readonly AddedToken[]) {
    this.#model = model;
    this.#pairs = BytePairs.of(model);
    this.#pattern = pattern;
    this.#isNormalized = normalizer !== null;
    this.#added = new AddedTokens(addedTokens, this.#isNormalized);
  }

  /** Undefined for a tokenizer of another kind. */
  static of(pipeline: Pipeline, addedTokens: readonly AddedToken[]): WordCache | undefined {
    const { normalizer, model, pre_tokenizer } = pipeline;
    const isPlain = normalizer === null || normalizer.config?.type === "NFC";
    const pattern = patternOf(pre_tokenizer);
    if (!isPlain || model.config?.type !== "BPE" || pattern === undefined) return undefined;
    return new WordCache(pipeline, pattern, addedTokens);
  }

  /** Undefined for a text that the library has to look at. */
  encode(text: string): Uint32Array | undefined {
    const places = this.#added.find(text);
    if (places === undefined) return undefined;
    let count = 0;
    let end = 0;
    for (const { at, length, id } of places) {
      count = this.#appendText(text.slice(end, at), count);
      count = this.#append([id], count);
      end = at + length;
    }
    count = this.#appendText(end === 0 ? text : text.slice(end), count);
    return this.#found.slice(0, count);
  }

  /** @returns the number of ids with those of this text, which has no added token */
  #appendText(given: string, before: number): number {
    const text = this.#isNormalized ? given.normalize("NFC") : given;
    let count = before;
    let end = 0;
    for (const match of text.matchAll(this.#pattern)) {
      const [word] = match;
      // A pattern may leave out what lies between its matches; that is a word too.
      if (match.index > end) count = this.#appendWord(text.slice(end, match.index), count);
      if (word !== "") count = this.#appendWord(word, count);
      end = match.index + word.length;
    }
    return end < text.length ? this.#appendWord(text.slice(end), count) : count;
  }

  #appendWord(word: string, count: number): number {
    return this.#append(this.#ids.get(word) ?? this.#idsOf(word), count);
  }

  #append(ids: readonly number[], count: number): number {
    const end = count + ids.length;
    if (end > this.#found.length) this.#grow(end);
    for (let i = 0; i < ids.length; i++) this.#found[count + i] = ids[i]!;
    return end;
  }

  #grow(least: number): void {
    const larger = new Uint32Array(2 * least);
    larger.set(this.#found);
    this.#found = larger;
  }

  #idsOf(word: string): readonly number[] {
    const bytes = Buffer.from(word);
    if (word.length > longestWord) return this.#merge(bytes);
    const ids = this.#pairs?.encode(bytes) ?? this.#merge(bytes);
    if (this.#ids.size >= mostWords) this.#ids.clear();
    this.#ids.set(ownCopy(word), ids);
    return ids;
  }

  /** By the library. */
  #merge(bytes: Uint8Array): readonly number[] {
    const { tokens_to_ids: idOf, unk_token_id: unknown } = this.#model;
    return this.#model([characters(bytes)]).map((token) => idOf.get(token) ?? unknown!);
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
