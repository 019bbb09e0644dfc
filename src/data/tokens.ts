/** All data files of a run as one sequence of tokens. */

import { DataError, InternalError, UsageError } from "../errors/errors.ts";
import { byteTokenizer, type Tokenizer } from "../tokenizer/tokenizer.ts";
import { EncodedText } from "./encoded-text.ts";
import { TokenFile } from "./token-file.ts";

export interface TokenSource extends AsyncDisposable {
  /** Tokens in all files together. */
  readonly count: number;
  /** Tokens [first, first + length) in an array of their own. A range may run over the border of two files. */
  read(first: number, length: number): Promise<Int32Array>;
  close(): Promise<void>;
}

export interface TokensOptions {
  /** Of the model: every token is below it. */
  readonly vocabularySize: number;
  /** What text files are encoded with. Left out: their bytes are the tokens. */
  readonly tokenizer?: Tokenizer;
}

/**
 * Opens text files (UTF-8; encoded with the tokenizer; a byte order mark at the start is skipped) and `.bin` token files (as
 * nanoGPT writes them: little-endian uint16, or uint32 where the vocabulary exceeds 65,536), joined in the order given.
 * Every file is checked in one pass that keeps no more than a megabyte; DataError names the file and the place.
 */
export async function openTokens(
  paths: readonly string[],
  { vocabularySize, tokenizer = byteTokenizer }: TokensOptions,
): Promise<TokenSource> {
  if (paths.length === 0) throw new DataError("no data: name at least one text or .bin file with --data");
  const isBytes = tokenizer === byteTokenizer;
  if (!isBytes) checkVocabulary(tokenizer, vocabularySize);
  const files: File[] = [];
  try {
    for (const path of paths) {
      const file =
        isBytes || path.endsWith(".bin") ? TokenFile.open(path, vocabularySize) : EncodedText.open(path, tokenizer);
      files.push(await file);
    }
  } catch (error) {
    await Promise.all(files.map((file) => file.close()));
    throw error;
  }
  return new JoinedFiles(files);
}

type File = TokenFile | EncodedText;

/** @throws UsageError where the tokenizer has tokens that the model has not */
export function checkVocabulary({ name, vocabularySize: tokens }: Tokenizer, vocabularySize: number): void {
  if (tokens <= vocabularySize) return;
  throw new UsageError(
    `the tokenizer ${name} has ${tokens} tokens, and the model's vocabulary ends at ${vocabularySize}: use the tokenizer that ` +
      "the model was made for, or a model with a larger vocab_size",
  );
}

class JoinedFiles implements TokenSource {
  readonly count: number;
  readonly #files: readonly File[];
  /** First token of each file in the joined sequence. */
  readonly #starts: readonly number[];

  constructor(files: readonly File[]) {
    const starts: number[] = [];
    let count = 0;
    for (const file of files) {
      starts.push(count);
      count += file.count;
    }
    this.#files = files;
    this.#starts = starts;
    this.count = count;
  }

  async read(first: number, length: number): Promise<Int32Array> {
    if (first < 0 || first + length > this.count) {
      throw new InternalError(`tokens ${first} to ${first + length} of ${this.count} were asked for`);
    }
    const tokens = new Int32Array(length);
    const parts: Promise<void>[] = [];
    for (const [i, file] of this.#files.entries()) {
      const start = this.#starts[i]!;
      const from = Math.max(first, start);
      const to = Math.min(first + length, start + file.count);
      if (from < to) parts.push(file.read(from - start, to - from, tokens, from - first));
    }
    await Promise.all(parts);
    return tokens;
  }

  async close(): Promise<void> {
    await Promise.all(this.#files.map((file) => file.close()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
