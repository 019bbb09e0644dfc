/** Text to token ids and back: what training, generation and data reading know of a tokenizer. */

import { checkArgument, path, required } from "../errors/options.ts";
import { byteTokenizer } from "./bytes.ts";
import { openTokenizerJson } from "./open.ts";

export interface EncodeOptions {
  /** Also what the tokenizer puts around a text (Llama's `<s>`). Left out: the ids of the text alone. */
  readonly addSpecialTokens?: boolean;
}

export interface DecodeOptions {
  /** Leaves special tokens out. Left out: they are written as their text. */
  readonly skipSpecialTokens?: boolean;
}

/** Pieces of text as ids come, one by one; a character in several tokens appears when its last one has come. */
export interface TokenStream {
  /** The characters that this id completes; often none. */
  push(id: number): string;
  /** What is left at the end: characters that were never completed, as U+FFFD. */
  end(): string;
}

export interface Tokenizer {
  /** Every id is below it: the least number of rows of a model's embedding. */
  readonly vocabularySize: number;
  /** The id after a text's last one; undefined where the tokenizer names none. */
  readonly endOfText: number | undefined;
  /** For people: `bytes`, or the file that it was read from. */
  readonly name: string;
  /** Special tokens that are written in the text are taken as such, as Hugging Face's library does. */
  encode(text: string, options?: EncodeOptions): Uint32Array;
  /** @throws UsageError for an id that the vocabulary has not */
  decode(ids: ArrayLike<number>, options?: DecodeOptions): string;
  stream(options?: DecodeOptions): TokenStream;
  /** The id of exactly this token (`<|endoftext|>`), if there is one. */
  idOf(token: string): number | undefined;
  /** The token as the file writes it; undefined for an id of no token. */
  tokenOf(id: number): string | undefined;
  /** The tokenizer_config.json that lies beside it; empty where there is none. */
  readonly settings: TokenizerSettings;
}

/** What of a tokenizer_config.json is used here; a special token is its text, or an object with it. */
export interface TokenizerSettings {
  readonly [name: string]: unknown;
}

export { byteTokenizer };

/**
 * Opens a tokenizer.json, or that of a folder, with the tokenizer_config.json beside it if there is one.
 * @throws ModelError that names the file and what is wrong with it
 */
export async function openTokenizer(folderOrFile: string): Promise<Tokenizer> {
  checkArgument("openTokenizer", "folderOrFile", folderOrFile, required(path));
  return openTokenizerJson(folderOrFile);
}
