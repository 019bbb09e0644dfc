/** The one pass that turns documents into a file of tokens. */

import type { FileHandle } from "node:fs/promises";
import { DataError } from "../errors/errors.ts";
import { type DocumentFile, type DocumentPiece, documentsOf, type ReadOptions } from "./documents.ts";
import type { TextTokenizer } from "./encode-batch.ts";
import type { Encoders } from "./encoders.ts";
import { piecesOf } from "./pieces.ts";
import type { CachedTokens } from "./token-cache.ts";
import type { TokenBytes } from "./token-file.ts";
import { TokenWriter } from "./token-writer.ts";

export interface TokenizeOptions extends ReadOptions {
  readonly tokenizer: TextTokenizer;
  readonly encoders: Encoders;
  readonly files: readonly DocumentFile[];
}

/** Characters that are encoded at once: many short documents, or a piece of a long one. */
const batchLength = 1 << 18;

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
  const pipeline = new Pipeline(options.encoders, writer);
  for (const file of files) {
    const border = borderOf(tokenizer, file);
    for await (const piece of piecesOf(documentsOf(file, options))) await pipeline.add(piece, border);
    await pipeline.endFile(border);
  }
  const { documents } = pipeline;
  if (documents === 0) throw new DataError(`${files[0]!.path} and the files beside it are all empty; wanted text`);
  await pipeline.finish();
  await writer.flush();
  return { tokens: writer.count, tokenBytes, largestId: writer.largest, documents, findings: findings.list() };
}

function borderOf(tokenizer: TextTokenizer, { format }: DocumentFile): Uint32Array {
  if (tokenizer.endOfText !== undefined) return Uint32Array.of(tokenizer.endOfText);
  return format === "text" ? new Uint32Array(0) : tokenizer.encode("\n");
}

/** Pieces in batches through the encoders, some batches ahead of the one that is written: order and memory are kept. */
class Pipeline {
  documents = 0;
  readonly #encoders: Encoders;
  readonly #writer: TokenWriter;
  #pieces: DocumentPiece[] = [];
  #length = 0;
  readonly #ahead: Promise<Uint32Array>[] = [];

  constructor(encoders: Encoders, writer: TokenWriter) {
    this.#encoders = encoders;
    this.#writer = writer;
  }

  async add(piece: DocumentPiece, border: Uint32Array): Promise<void> {
    this.#pieces.push(piece);
    this.#length += piece.text.length;
    if (piece.isLast) this.documents++;
    if (this.#length >= batchLength) await this.endFile(border);
  }

  /** What follows may have another border. */
  async endFile(border: Uint32Array): Promise<void> {
    if (this.#pieces.length === 0) return;
    const tokens = this.#encoders.encode({ pieces: this.#pieces, border });
    tokens.catch(() => undefined); // its error is told where it is awaited
    this.#ahead.push(tokens);
    this.#pieces = [];
    this.#length = 0;
    if (this.#ahead.length >= this.#encoders.mostAhead) await this.#writeFirst();
  }

  async finish(): Promise<void> {
    while (this.#ahead.length > 0) await this.#writeFirst();
  }

  async #writeFirst(): Promise<void> {
    await this.#writer.write(await this.#ahead.shift()!);
  }
}
