/** Pieces of documents to tokens, with the borders between documents: the same in the main thread and in a worker. */

import { DataError } from "../errors/errors.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import type { DocumentPiece } from "./documents.ts";

/** What making tokens of data needs of a tokenizer; the settings hold the template of conversations. */
export type TextTokenizer = Pick<Tokenizer, "encode" | "endOfText" | "name" | "vocabularySize"> &
  Partial<Pick<Tokenizer, "settings">>;

export interface EncodableBatch {
  readonly pieces: readonly DocumentPiece[];
  /** After each document. */
  readonly border: Uint32Array;
}

/** @throws DataError that names the place of a text on which the tokenizer fails */
export function encodeBatch(tokenizer: TextTokenizer, { pieces, border }: EncodableBatch): Uint32Array<ArrayBuffer> {
  const parts: Uint32Array[] = [];
  for (const { text, file, line, isLast } of pieces) {
    try {
      parts.push(tokenizer.encode(text));
    } catch (error) {
      throw new DataError(`${file}:${line} cannot be encoded: ${(error as Error).message}`, { cause: error });
    }
    if (isLast) parts.push(border);
  }
  const tokens = new Uint32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let filled = 0;
  for (const part of parts) {
    tokens.set(part, filled);
    filled += part.length;
  }
  return tokens;
}
