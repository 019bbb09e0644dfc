/** All data files of a run as one sequence of tokens. */

import { InternalError } from "../errors/errors.ts";
import { TokenFile, type TokenRange } from "./token-file.ts";

export interface TokenSource extends AsyncDisposable {
  /** Tokens in all files together. */
  readonly count: number;
  /** Tokens [first, first + length) in an array of their own. A range may run over the border of two files. */
  read(first: number, length: number): Promise<Int32Array>;
  close(): Promise<void>;
}

/** Ranges of files that were checked before, joined in the order given. Nothing is read until tokens are asked for. */
export async function openRanges(
  ranges: readonly TokenRange[],
  options: { readonly vocabularySize: number },
): Promise<TokenSource> {
  const files: TokenFile[] = [];
  try {
    for (const range of ranges) files.push(await TokenFile.openRange(range, options.vocabularySize));
  } catch (error) {
    await Promise.all(files.map((file) => file.close()));
    throw error;
  }
  return new JoinedFiles(files);
}

class JoinedFiles implements TokenSource {
  readonly count: number;
  readonly #files: readonly TokenFile[];
  /** First token of each file in the joined sequence. */
  readonly #starts: readonly number[];

  constructor(files: readonly TokenFile[]) {
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
