/** A tokenizer.json by Hugging Face's own library for JavaScript. */

import { Tokenizer as Library } from "@huggingface/tokenizers";
import { ModelError, UsageError } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";
import type { AddedToken } from "./added-tokens.ts";
import { checkDecode, checkEncode } from "./call-kinds.ts";
import { makeExact, type Parts } from "./exactness.ts";
import type { DecodeOptions, EncodeOptions, Tokenizer, TokenizerSettings, TokenStream } from "./tokenizer.ts";
import { type Pipeline, WordCache } from "./word-cache.ts";

/** A tokenizer.json with the parts that the library takes for granted. */
export interface TokenizerJson {
  readonly model: Readonly<Record<string, unknown>>;
  readonly added_tokens: readonly AddedToken[];
  readonly [part: string]: unknown;
}

/** Ends of text by the names that published models give them, the likeliest first; used where the settings name none. */
const usualEnds = ["<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "[EOS]"];

/** Tokens of a character that is not complete: shown as this until it is. */
const replacement = "\uFFFD";

export class HuggingFaceTokenizer implements Tokenizer {
  readonly name: string;
  readonly vocabularySize: number;
  readonly endOfText: number | undefined;
  readonly settings: TokenizerSettings;
  readonly #library: Library;
  /** Undefined for a tokenizer of another kind than it knows. */
  readonly #words: WordCache | undefined;

  constructor(path: string, json: TokenizerJson, settings: TokenizerSettings) {
    this.name = path;
    this.settings = settings;
    // The settings are of Python's wrapper; what they change there after decoding is not the tokenizer's own doing.
    this.#library = new Library(json, {});
    makeExact(this.#library as unknown as Parts);
    this.#words = WordCache.of(this.#library as unknown as Pipeline, json.added_tokens);
    const added = json.added_tokens.reduce((most, { id }) => Math.max(most, id + 1), 0);
    this.vocabularySize = Math.max(added, vocabularyEnd(path, json.model.vocab as object));
    this.endOfText = this.#findEnd(path);
  }

  encode(text: string, options: EncodeOptions = {}): Uint32Array {
    checkEncode(text, options);
    if (text === "" && !options.addSpecialTokens) return new Uint32Array();
    const known = options.addSpecialTokens ? undefined : this.#words?.encode(text);
    if (known) return known;
    const { ids } = this.#library.encode(text, { add_special_tokens: options.addSpecialTokens ?? false });
    return Uint32Array.from(ids);
  }

  decode(ids: ArrayLike<number>, options: DecodeOptions = {}): string {
    checkDecode(ids, options);
    if (ids.length === 0) return "";
    const list = Array.from(ids);
    const unknown = list.find((id) => this.tokenOf(id) === undefined);
    if (unknown !== undefined)
      throw new UsageError(`token id ${unknown} is not in ${this.name}; wanted ids below ${this.vocabularySize}`);
    const skip = options.skipSpecialTokens ?? false;
    return this.#library.decode(list, { skip_special_tokens: skip, clean_up_tokenization_spaces: false });
  }

  /** Some decoders look at what came before (a leading space), so a few tokens that are shown already are decoded again. */
  stream(options: DecodeOptions = {}): TokenStream {
    let shown: number[] = [];
    let pending: number[] = [];
    const flush = (force: boolean): string => {
      const before = this.decode(shown, options);
      const text = this.decode([...shown, ...pending], options);
      if (text.endsWith(replacement) && !force) return "";
      shown = pending;
      pending = [];
      return text.slice(before.length);
    };
    return {
      push: (id) => {
        // A model may have more rows than the tokenizer has tokens.
        if (this.tokenOf(id) === undefined) return "";
        pending.push(id);
        return flush(false);
      },
      end: () => (pending.length === 0 ? "" : flush(true)),
    };
  }

  idOf(token: string): number | undefined {
    return this.#library.token_to_id(token);
  }

  tokenOf(id: number): string | undefined {
    return this.#library.id_to_token(id);
  }

  #findEnd(path: string): number | undefined {
    const named = specialText(this.settings.eos_token);
    if (named === undefined) {
      const usual = usualEnds.find((token) => this.idOf(token) !== undefined);
      return usual === undefined ? undefined : this.idOf(usual);
    }
    const id = this.idOf(named);
    if (id === undefined)
      throw new ModelError(`${path}: the settings beside it name ${printable(named)} as eos_token, which it has not`);
    return id;
  }
}

/** A special token of the settings: its text, or an object with it. */
export function specialText(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  const content = (value as { content?: unknown } | null | undefined)?.content;
  return typeof content === "string" ? content : undefined;
}

/** Of what token files and embeddings hold; vocabularies have some hundred thousand tokens. */
const largestId = 2 ** 31 - 2;

/** One more than the largest id. Unigram lists its tokens in order; the others map tokens to ids. */
function vocabularyEnd(path: string, vocabulary: object): number {
  if (Array.isArray(vocabulary)) return vocabulary.length;
  let end = 0;
  for (const [token, id] of Object.entries(vocabulary)) {
    if (!Number.isInteger(id) || id < 0 || id > largestId)
      throw new ModelError(
        `${path}: token ${printable(JSON.stringify(token))}: found id ${printable(String(id))}; wanted a whole number from 0 to ${largestId}`,
      );
    end = Math.max(end, id + 1);
  }
  return end;
}
