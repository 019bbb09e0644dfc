/** One data file as a sequence of tokens, read by range and never as a whole. */

import { type FileHandle, open, stat } from "node:fs/promises";
import { DataError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { describeInvalidUtf8, firstInvalidUtf8, unfinishedTail } from "./utf8.ts";

/** Bytes of one token: 1 for UTF-8 text (its bytes are the tokens), 2 or 4 for little-endian token files. */
export type TokenBytes = 1 | 2 | 4;

/** Tokens of a file that was checked before: plain data, which ranks are told. */
export interface TokenRange {
  readonly path: string;
  readonly tokenBytes: TokenBytes;
  /** Where the first token stands. */
  readonly startByte: number;
  readonly count: number;
}

/** Read at a time while checking; small beside a model, large beside the cost of a call. */
const chunkBytes = 1 << 20;
const byteOrderMark = [0xef, 0xbb, 0xbf] as const;

export class TokenFile {
  readonly path: string;
  readonly count: number;
  readonly #handle: FileHandle;
  readonly #tokenBytes: TokenBytes;
  /** Where the first token stands: after a byte order mark. */
  readonly #startByte: number;
  readonly #vocabularySize: number;

  private constructor(
    path: string,
    handle: FileHandle,
    layout: { readonly tokenBytes: TokenBytes; readonly startByte: number; readonly count: number },
    vocabularySize: number,
  ) {
    this.path = path;
    this.count = layout.count;
    this.#handle = handle;
    this.#tokenBytes = layout.tokenBytes;
    this.#startByte = layout.startByte;
    this.#vocabularySize = vocabularySize;
  }

  /**
   * Opens a text (UTF-8; its bytes are the tokens; a byte order mark at the start is skipped) or a `.bin` token file (as nanoGPT writes
   * them: little-endian uint16, or uint32 where the vocabulary exceeds 65,536), and checks all of it in one pass that keeps no more
   * than a megabyte. Throws DataError with the file and the place.
   * @param watch sees the bytes of a text as they pass
   */
  static async open(path: string, vocabularySize: number, watch?: (bytes: Uint8Array) => void): Promise<TokenFile> {
    const bytes = await regularFileBytes(path);
    const tokenBytes: TokenBytes = !path.endsWith(".bin") ? 1 : vocabularySize > 65536 ? 4 : 2;
    if (bytes % tokenBytes !== 0) {
      const because = `uint${8 * tokenBytes}, since the vocabulary has ${vocabularySize} entries`;
      throw new DataError(
        `${path} has ${bytes} bytes; wanted a multiple of ${tokenBytes} (tokens are little-endian ${because})`,
      );
    }
    const handle = await openHandle(path);
    try {
      const startByte = tokenBytes === 1 && (await startsWithMark(handle)) ? byteOrderMark.length : 0;
      const count = (bytes - startByte) / tokenBytes;
      if (count === 0) throw new DataError(`${path} is empty; wanted ${tokenBytes === 1 ? "text" : "tokens"}`);
      const file = new TokenFile(path, handle, { tokenBytes, startByte, count }, vocabularySize);
      await file.#check(watch);
      return file;
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Opens what was checked before: nothing is read yet. */
  static async openRange({ path, ...layout }: TokenRange, vocabularySize: number): Promise<TokenFile> {
    return new TokenFile(path, await openHandle(path), layout, vocabularySize);
  }

  get range(): TokenRange {
    const { path, count } = this;
    return { path, tokenBytes: this.#tokenBytes, startByte: this.#startByte, count };
  }

  /** Writes tokens [first, first + count) to `into` from `offset` on; checked again, since a file can change. */
  async read(first: number, count: number, into: Int32Array, offset: number): Promise<void> {
    const bytes = await this.#readBytes(this.#startByte + first * this.#tokenBytes, count * this.#tokenBytes);
    const tokens = this.#view(bytes);
    this.#checkVocabulary(tokens, first);
    into.set(tokens, offset);
  }

  close(): Promise<void> {
    return this.#handle.close();
  }

  async #check(watch?: (bytes: Uint8Array) => void): Promise<void> {
    const end = this.#startByte + this.count * this.#tokenBytes;
    for (let at = this.#startByte; at < end; ) {
      let bytes = await this.#readBytes(at, Math.min(chunkBytes, end - at));
      if (this.#tokenBytes === 1) {
        // A character that the chunk cuts in two is left for the next chunk.
        const tail = at + bytes.length < end ? unfinishedTail(bytes) : 0;
        bytes = bytes.subarray(0, bytes.length - tail);
        this.#checkText(bytes, at);
        watch?.(bytes);
      }
      this.#checkVocabulary(this.#view(bytes), (at - this.#startByte) / this.#tokenBytes);
      at += bytes.length;
    }
  }

  #checkText(bytes: Uint8Array, at: number): void {
    const bad = firstInvalidUtf8(bytes);
    if (bad === -1) return;
    throw new DataError(describeInvalidUtf8(this.path, bytes, bad, at));
  }

  #checkVocabulary(tokens: Uint8Array | Uint16Array | Uint32Array, first: number): void {
    if (tokens instanceof Uint8Array && this.#vocabularySize >= 256) return;
    for (let i = 0; i < tokens.length; i++) {
      if (tokens[i]! < this.#vocabularySize) continue;
      const kind = this.#tokenBytes === 1 ? "byte" : "token id";
      throw new DataError(
        `${this.path} has ${kind} ${tokens[i]} at position ${first + i}; wanted ids below ${this.#vocabularySize}, ` +
          "the model's vocabulary: use the model that the tokens were made for, or a larger vocabulary",
      );
    }
  }

  #view(bytes: Uint8Array<ArrayBuffer>): Uint8Array | Uint16Array | Uint32Array {
    if (this.#tokenBytes === 1) return bytes;
    const Words = this.#tokenBytes === 2 ? Uint16Array : Uint32Array;
    return new Words(bytes.buffer, bytes.byteOffset, bytes.length / this.#tokenBytes);
  }

  /** A range of the file in a buffer of its own, so that it is aligned for 16- and 32-bit views. */
  async #readBytes(position: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      const { bytesRead } = await this.#handle
        .read(bytes, done, length - done, position + done)
        .catch((error: Error) => {
          throw new DataError(`${this.path} cannot be read at byte ${position + done}: ${reasonOf(error)}`, {
            cause: error,
          });
        });
      if (bytesRead === 0) {
        throw new DataError(
          `${this.path} ends at byte ${position + done}, though it was longer when it was opened; keep it unchanged`,
        );
      }
      done += bytesRead;
    }
    return bytes;
  }
}

function openHandle(path: string): Promise<FileHandle> {
  return open(path, "r").catch((error: Error) => {
    throw new DataError(`${path} cannot be opened: ${reasonOf(error)}`, { cause: error });
  });
}

async function regularFileBytes(path: string): Promise<number> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === "ENOENT" ? "no such file" : reasonOf(error);
    throw new DataError(`${path}: ${why}; check --data`, { cause: error });
  });
  if (!found.isFile())
    throw new DataError(`${path} is not a regular file; wanted a text or .bin file, which can be read by range`);
  return found.size;
}

async function startsWithMark(handle: FileHandle): Promise<boolean> {
  const { buffer, bytesRead } = await handle.read(new Uint8Array(3), 0, 3, 0);
  return bytesRead === 3 && byteOrderMark.every((byte, i) => buffer[i] === byte);
}
