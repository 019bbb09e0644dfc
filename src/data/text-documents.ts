/** A text file as one document, in pieces. It is UTF-8 or refused; \r\n is read as \n; everything else is kept. */

import { DataError } from "../errors/errors.ts";
import type { DocumentPiece, ReadOptions } from "./documents.ts";
import { EmptyFileError, fileBytes } from "./file-bytes.ts";
import type { SourceFile } from "./source-files.ts";
import { describeInvalidUtf8, firstInvalidUtf8, unfinishedTail } from "./utf8.ts";

/** So many NUL bytes in a row are damage (a power cut, a sparse file), and not text. */
const nulBlockBytes = 64;

/** @throws DataError where the file is not UTF-8, or holds nothing */
export async function* textDocuments(file: SourceFile, options: ReadOptions): AsyncGenerator<DocumentPiece> {
  const scan = new TextScan(file.path, options);
  let line = 1;
  let text = "";
  for await (const chunk of fileBytes(file, options.onRead)) {
    text += scan.read(chunk, false);
    if (text.length === 0) continue;
    yield { text, file: file.path, line, isLast: false };
    line = scan.line;
    text = "";
  }
  text += scan.read(Buffer.alloc(0), true);
  scan.finish();
  yield { text, file: file.path, line, isLast: true };
}

/** Reads a text chunk by chunk: what a chunk cuts in two is left for the next. */
class TextScan {
  /** Where the next chunk begins, from 1. */
  line = 1;
  readonly #path: string;
  readonly #options: ReadOptions;
  #rest: Buffer = Buffer.alloc(0);
  /** Of the file, at the beginning of `#rest`. */
  #offset = 0;
  /** NULs in a row up to here. */
  #nuls = 0;
  #nulCount = 0;
  #count = 0;

  constructor(path: string, options: ReadOptions) {
    this.#path = path;
    this.#options = options;
  }

  read(chunk: Buffer, isLast: boolean): string {
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    // Whether a \r belongs to a \n, and whether a first byte begins a mark, is known with the next bytes.
    const isShort = this.#offset === 0 && bytes.length < 3;
    const tail = isLast ? 0 : isShort ? bytes.length : bytes.at(-1) === 0x0d ? 1 : unfinishedTail(bytes);
    this.#rest = bytes.subarray(bytes.length - tail);
    bytes = bytes.subarray(0, bytes.length - tail);
    if (bytes.length === 0) return "";
    const bad = firstInvalidUtf8(bytes);
    if (bad !== -1) throw new DataError(describeInvalidUtf8(this.#path, bytes, bad, this.#offset));
    const hasMark = this.#offset === 0 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
    if (hasMark) this.#options.findings.note("byteOrderMark", `${this.#path}:1`);
    this.#countNuls(bytes);
    this.#offset += bytes.length;
    const text = this.#mendLineEnds(bytes.toString("utf8", hasMark ? 3 : 0), bytes);
    this.#count += text.length;
    return text;
  }

  /** @throws DataError where there was nothing, or nothing but NULs */
  finish(): void {
    this.#endNuls(this.#offset);
    if (this.#count === 0) throw new EmptyFileError(`${this.#path} is empty; wanted text`);
    if (this.#nulCount === this.#count)
      throw new DataError(`${this.#path} holds nothing but NUL bytes: it is damaged; restore it, or leave it out`);
  }

  #mendLineEnds(text: string, bytes: Buffer): string {
    const firstLine = this.line;
    for (let at = bytes.indexOf(0x0a); at !== -1; at = bytes.indexOf(0x0a, at + 1)) this.line++;
    if (!bytes.includes(0x0d)) return text;
    const mended = text.replaceAll("\r\n", "\n");
    const { findings } = this.#options;
    const place = (at: number): string => `${this.#path}:${firstLine + text.slice(0, at).split("\n").length - 1}`;
    if (mended.length < text.length)
      findings.note("windowsLineEnd", place(text.indexOf("\r\n")), text.length - mended.length);
    const lone = mended.split("\r").length - 1;
    if (lone > 0) findings.note("loneReturn", place(text.search(/\r(?!\n)/)), lone);
    return mended;
  }

  #countNuls(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      if (bytes[at] === 0) {
        this.#nuls++;
        at++;
        continue;
      }
      this.#endNuls(this.#offset + at);
      const next = bytes.indexOf(0, at);
      at = next === -1 ? bytes.length : next;
    }
  }

  /** @param end offset of the first byte after a run of NULs */
  #endNuls(end: number): void {
    if (this.#nuls === 0) return;
    const { findings } = this.#options;
    const place = `${this.#path} at byte ${end - this.#nuls}`;
    this.#nulCount += this.#nuls;
    if (this.#nuls >= nulBlockBytes) findings.note("nulBlock", `${place} (${this.#nuls} of them)`);
    else findings.note("nul", place, this.#nuls);
    this.#nuls = 0;
  }
}
