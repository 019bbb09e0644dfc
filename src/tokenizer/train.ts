/** A byte-level BPE tokenizer from text: words are counted as the text streams by, then merges are learned from the counts. */

import { UsageError } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";
import { byteCharacters } from "./byte-level.ts";
import { learnMerges, type MergedWords } from "./merges.ts";
import { WordCounts } from "./word-counts.ts";

export interface TrainOptions {
  /** Special tokens, bytes and merges together; the text may give fewer merges. */
  readonly vocabularySize: number;
  /** Tokens that no text makes; the first ends a text. They have the first ids. */
  readonly specialTokens: readonly string[];
}

export interface TrainedTokenizer {
  readonly specialTokens: readonly string[];
  /** By id, special tokens first. */
  readonly vocabulary: readonly string[];
  /** Left and right part of each merge, as written in the vocabulary. */
  readonly merges: readonly (readonly [string, string])[];
  readonly textBytes: number;
  /** Of the text that it was trained on. */
  readonly textTokens: number;
  /** Different words. */
  readonly words: number;
  /** Occurrences of rare words that were left out since there were too many different ones. */
  readonly droppedOccurrences: number;
}

export const endOfText = "<|endoftext|>";

/** Collects text piece by piece, then trains. */
export class TokenizerTrainer {
  readonly #options: TrainOptions;
  readonly #counts = new WordCounts();
  #textBytes = 0;

  /** @throws UsageError for special tokens or a vocabulary size that make no tokenizer */
  constructor(options: TrainOptions) {
    checkSpecialTokens(options.specialTokens);
    const least = options.specialTokens.length + byteCharacters.length;
    if (options.vocabularySize < least)
      throw new UsageError(
        `a vocabulary of ${options.vocabularySize} is too small; wanted at least ${least}: ` +
          `${byteCharacters.length} bytes and ${options.specialTokens.length} special tokens`,
      );
    this.#options = options;
  }

  /** A piece of text; words are not joined across pieces. */
  add(text: string): void {
    this.#counts.add(text);
    this.#textBytes += Buffer.byteLength(text);
  }

  /** @throws UsageError where no text was added */
  train(): TrainedTokenizer {
    if (this.#textBytes === 0) throw new UsageError("there is no text to train a tokenizer on; give more with --data");
    const { specialTokens, vocabularySize } = this.#options;
    // Bytes in the order of their characters, and ids after the special tokens: as Hugging Face's trainer numbers them.
    const base = [...specialTokens, ...[...byteCharacters].sort()];
    const learned = learnMerges(base, this.#byteWords(), vocabularySize);
    return {
      specialTokens,
      vocabulary: learned.symbols,
      merges: mergeTexts(learned),
      textBytes: this.#textBytes,
      textTokens: learned.tokens,
      words: this.#counts.counts.size,
      droppedOccurrences: this.#counts.droppedOccurrences,
    };
  }

  *#byteWords(): IterableIterator<readonly [string, number]> {
    for (const [word, count] of this.#counts.counts) {
      let characters = "";
      for (const byte of Buffer.from(word)) characters += byteCharacters[byte];
      yield [characters, count];
    }
  }
}

function mergeTexts({ merges, symbols }: MergedWords): (readonly [string, string])[] {
  return merges.map(({ left, right }) => [symbols[left]!, symbols[right]!]);
}

function checkSpecialTokens(tokens: readonly string[]): void {
  for (const [i, token] of tokens.entries()) {
    // A single character could be a byte's.
    if ([...token].length < 2 || token.trim() !== token)
      throw new UsageError(
        `special token ${printable(JSON.stringify(token))}: wanted two characters or more, no space around`,
      );
    if (tokens.indexOf(token) !== i) throw new UsageError(`special token ${printable(token)} is named twice`);
  }
}
