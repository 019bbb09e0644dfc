/** The one pass that turns documents into a file of tokens. */

import type { FileHandle } from "node:fs/promises";
import { DataError } from "../errors/errors.ts";
import type { Tokenizer } from "./byte-tokenizer.ts";
import { type DocumentFile, type DocumentPiece, documentsOf, type ReadOptions } from "./documents.ts";
import { EmptyFileError } from "./file-bytes.ts";
import type { Findings } from "./findings.ts";
import { encodablePieces } from "./pieces.ts";
import type { SourceFile } from "./source-files.ts";
import type { CachedTokens } from "./token-cache.ts";
import type { TokenBytes } from "./token-file.ts";
import { TokenWriter } from "./token-writer.ts";

export interface TokenizeOptions extends Pick<ReadOptions, "textField" | "onRead"> {
  readonly tokenizer: Tokenizer;
  readonly files: readonly DocumentFile[];
  /** Empty files are left out, and not refused. */
  readonly isSearched: boolean;
  readonly findings: Findings;
}

/** The smallest words that hold every id. */
export const tokenBytesFor = (vocabularySize: number): TokenBytes =>
  vocabularySize <= 256 ? 1 : vocabularySize <= 65536 ? 2 : 4;

/**
 * Writes the tokens of all files in order, with a border after each document: the tokenizer's end of text, or where it has none a
 * line feed after a record of a table (texts then follow each other as they are). @throws DataError
 */
export async function tokenize(handle: FileHandle, options: TokenizeOptions): Promise<CachedTokens> {
  const { tokenizer, files, findings } = options;
  const tokenBytes = tokenBytesFor(tokenizer.vocabularySize);
  const writer = new TokenWriter(handle, tokenBytes);
  let documents = 0;
  for (const file of files) {
    const border = borderOf(tokenizer, file);
    try {
      for await (const piece of encodablePieces(documentsOf(file, options))) {
        await writer.write(encode(tokenizer, piece));
        if (!piece.isLast) continue;
        documents++;
        await writer.write(border);
      }
    } catch (error) {
      if (!(error instanceof EmptyFileError && options.isSearched)) throw error;
      findings.note("emptyFile", file.path);
    }
  }
  if (documents === 0) throw new DataError(`${files[0]!.path} and the files beside it are all empty; wanted text`);
  await writer.flush();
  return { tokens: writer.count, tokenBytes, largestId: writer.largest, documents, findings: findings.list() };
}

function borderOf({ endOfText, encode }: Tokenizer, { format }: SourceFile): Uint32Array {
  if (endOfText !== undefined) return Uint32Array.of(endOfText);
  return format === "text" ? new Uint32Array(0) : encode("\n");
}

/** A tokenizer that fails on a text is told of with the place. */
function encode(tokenizer: Tokenizer, { text, file, line }: DocumentPiece): Uint32Array {
  try {
    return tokenizer.encode(text);
  } catch (error) {
    throw new DataError(`${file}:${line} cannot be encoded: ${(error as Error).message}`, { cause: error });
  }
}
