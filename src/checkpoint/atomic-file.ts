/** A file that is there in full or not at all: written under a temporary name, flushed to disk, then renamed. */

import { randomBytes } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { ModelError } from "../errors/errors.ts";

export type Pieces = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/**
 * Writes the pieces in order to `path`, replacing what is there. Whatever fails (the disk or the pieces), `path` stays as it was
 * and nothing else remains. Disk errors are ModelError; errors of the pieces pass through.
 */
export async function writeAtomically(path: string, pieces: Pieces): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}-${randomBytes(4).toString("hex")}.partial`);
  const handle = await open(temporary, "wx").catch((error: Error) => diskError(path, error));
  try {
    try {
      await writePieces(path, handle, pieces);
      await handle.sync().catch((error: Error) => diskError(path, error));
    } finally {
      await handle.close();
    }
    await rename(temporary, path).catch((error: Error) => diskError(path, error));
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder(dirname(path));
}

/** The next piece is made while one is being written; a piece that was given must not change any more. */
async function writePieces(path: string, handle: FileHandle, pieces: Pieces): Promise<void> {
  let writing = Promise.resolve();
  try {
    for await (const piece of pieces) {
      await writing;
      writing = writeAll(path, handle, piece);
      // Its error is told where it is awaited.
      writing.catch(() => undefined);
    }
  } finally {
    await writing;
  }
}

async function writeAll(path: string, handle: FileHandle, piece: Uint8Array): Promise<void> {
  for (let done = 0; done < piece.length; ) {
    const { bytesWritten } = await handle
      .write(piece, done, piece.length - done)
      .catch((error: Error) => diskError(path, error));
    done += bytesWritten;
  }
}

/** Makes the rename itself last; some file systems cannot flush a folder, and there is nothing more to do on those. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r").catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}

function diskError(path: string, error: Error): never {
  throw new ModelError(`${path} cannot be written: ${error.message}`, { cause: error });
}
