/** A text file as a tokenizer's tokens, read by range. Nothing is kept but where pieces begin; what is read is encoded again. */

import type { FileHandle } from "node:fs/promises";
import { DataError } from "../errors/errors.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import { openText, readRange, textPieces } from "./text-pieces.ts";

/** Small, since a window in it means encoding it all; large beside what tokenizers look at. */
const pieceBytes = 2 ** 14;
/** Pieces whose tokens are kept: a few megabytes, and all of a small text. */
const mostKept = 256;

interface Piece {
  readonly firstByte: number;
  readonly bytes: number;
  readonly firstToken: number;
}

export class EncodedText {
  readonly path: string;
  readonly count: number;
  readonly #handle: FileHandle;
  readonly #tokenizer: Tokenizer;
  readonly #pieces: readonly Piece[];
  /** By number of the piece, the one that was used last at the end. */
  readonly #kept = new Map<number, Promise<Uint32Array>>();

  private constructor(path: string, handle: FileHandle, tokenizer: Tokenizer, pieces: readonly Piece[], count: number) {
    this.path = path;
    this.count = count;
    this.#handle = handle;
    this.#tokenizer = tokenizer;
    this.#pieces = pieces;
  }

  /** Encodes all of the file once, piece by piece, to know how many tokens it has. @throws DataError */
  static async open(path: string, tokenizer: Tokenizer): Promise<EncodedText> {
    const pieces: Piece[] = [];
    let count = 0;
    for await (const { text, firstByte, bytes } of textPieces(path, pieceBytes)) {
      pieces.push({ firstByte, bytes, firstToken: count });
      count += tokenizer.encode(text).length;
    }
    if (count === 0) throw new DataError(`${path} is empty; wanted text`);
    const { handle } = await openText(path);
    return new EncodedText(path, handle, tokenizer, pieces, count);
  }

  /** Writes tokens [first, first + count) to `into` from `offset` on. */
  async read(first: number, count: number, into: Int32Array, offset: number): Promise<void> {
    const end = first + count;
    for (let i = this.#pieceOf(first); i < this.#pieces.length; i++) {
      const { firstToken } = this.#pieces[i]!;
      if (firstToken >= end) break;
      const tokens = await this.#tokensOf(i);
      const from = Math.max(first, firstToken);
      const part = tokens.subarray(from - firstToken, end - firstToken);
      into.set(part, offset + from - first);
    }
  }

  close(): Promise<void> {
    return this.#handle.close();
  }

  /** The last piece that begins at or before a token. */
  #pieceOf(token: number): number {
    let low = 0;
    let high = this.#pieces.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#pieces[middle]!.firstToken <= token) low = middle;
      else high = middle;
    }
    return low;
  }

  #tokensOf(index: number): Promise<Uint32Array> {
    const tokens = this.#kept.get(index) ?? this.#encode(index);
    this.#kept.delete(index);
    this.#kept.set(index, tokens);
    if (this.#kept.size > mostKept) this.#kept.delete(this.#kept.keys().next().value!);
    return tokens;
  }

  async #encode(index: number): Promise<Uint32Array> {
    const { firstByte, bytes, firstToken } = this.#pieces[index]!;
    const text = await readRange(this.path, this.#handle, firstByte, bytes);
    const tokens = this.#tokenizer.encode(text.toString("utf8"));
    const wanted = (this.#pieces[index + 1]?.firstToken ?? this.count) - firstToken;
    if (tokens.length !== wanted)
      throw new DataError(`${this.path} has changed at byte ${firstByte} since it was opened; keep it unchanged`);
    return tokens;
  }
}
