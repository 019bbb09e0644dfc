/** A text file piece by piece, in constant memory: pieces of whole lines, which a tokenizer may take one at a time. */

import { type FileHandle, open, stat } from "node:fs/promises";
import { DataError } from "../errors/errors.ts";
import { firstInvalidUtf8, unfinishedTail } from "./utf8.ts";

export interface TextPiece {
  readonly text: string;
  /** Where its bytes are in the file. */
  readonly firstByte: number;
  readonly bytes: number;
}

const newline = 0x0a;
const byteOrderMark = [0xef, 0xbb, 0xbf] as const;

/**
 * The pieces of a UTF-8 file in order, each of at most `pieceBytes`; together they are the file (but for a byte order mark at its
 * start). A piece ends after a line that text follows at once, where tokenizers cut too; where there is none, after another line
 * end; where there is none either, after a character. Where pieces end depends on the file and on `pieceBytes` alone.
 * @throws DataError that names the file and the place of what is no UTF-8
 */
export async function* textPieces(path: string, pieceBytes: number): AsyncGenerator<TextPiece> {
  const { handle, size } = await openText(path);
  try {
    let at = (await startsWithMark(handle)) ? byteOrderMark.length : 0;
    while (at < size) {
      const window = await readRange(path, handle, at, Math.min(pieceBytes, size - at));
      const end = at + window.length < size ? pieceEnd(window) : window.length;
      const piece = window.subarray(0, end);
      checkText(path, piece, at);
      yield { text: piece.toString("utf8"), firstByte: at, bytes: end };
      at += end;
    }
  } finally {
    await handle.close();
  }
}

/** @throws DataError for what cannot be read by range */
export async function openText(path: string): Promise<{ readonly handle: FileHandle; readonly size: number }> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === "ENOENT" ? "no such file" : error.message;
    throw new DataError(`${path}: ${why}; check --data`, { cause: error });
  });
  if (!found.isFile()) throw new DataError(`${path} is not a regular file; wanted a text file, which is read by range`);
  const handle = await open(path, "r").catch((error: Error) => {
    throw new DataError(`${path} cannot be opened: ${error.message}`, { cause: error });
  });
  return { handle, size: found.size };
}

/** @throws DataError where the file has become shorter */
export async function readRange(path: string, handle: FileHandle, first: number, bytes: number): Promise<Buffer> {
  const buffer = Buffer.alloc(bytes);
  for (let done = 0; done < bytes; ) {
    const { bytesRead } = await handle.read(buffer, done, bytes - done, first + done).catch((error: Error) => {
      throw new DataError(`${path} cannot be read at byte ${first + done}: ${error.message}`, { cause: error });
    });
    if (bytesRead === 0)
      throw new DataError(
        `${path} ends at byte ${first + done}, though it was longer when it was opened; keep it unchanged`,
      );
    done += bytesRead;
  }
  return buffer;
}

/** Bytes of the piece that a full window begins with. */
function pieceEnd(window: Buffer): number {
  const last = window.lastIndexOf(newline);
  for (let at = last; at > 0; at = window.lastIndexOf(newline, at - 1)) {
    if (isText(window[at - 1]) && isText(window[at + 1])) return at + 1;
  }
  return last > 0 ? last + 1 : window.length - unfinishedTail(window);
}

/** No space and no control character. Beyond the window nothing is known, so that counts as none. */
function isText(byte: number | undefined): boolean {
  return byte !== undefined && byte > 0x20;
}

function checkText(path: string, bytes: Uint8Array, at: number): void {
  const bad = firstInvalidUtf8(bytes);
  if (bad === -1) return;
  const value = `0x${bytes[bad]!.toString(16).padStart(2, "0")}`;
  throw new DataError(`${path} is not UTF-8 text: byte ${value} at offset ${at + bad}; save it as UTF-8`);
}

async function startsWithMark(handle: FileHandle): Promise<boolean> {
  const { buffer, bytesRead } = await handle.read(new Uint8Array(3), 0, 3, 0);
  return bytesRead === 3 && byteOrderMark.every((byte, i) => buffer[i] === byte);
}
