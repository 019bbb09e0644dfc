/** A file that is there in full or not at all: written under a temporary name, flushed to disk, then renamed. */

import { randomBytes } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { ModelError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { BlockFile } from "./block-file.ts";

export type Pieces = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/**
 * Writes the pieces in order to `path`, replacing what is there; a piece may change once the next one is asked for. Whatever fails
 * (the disk or the pieces), `path` stays as it was and nothing else remains. Disk errors are ModelError; errors of the pieces pass
 * through.
 */
export async function writeAtomically(path: string, pieces: Pieces): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}-${randomBytes(4).toString("hex")}.partial`);
  const onDisk = <T>(work: Promise<T>): Promise<T> => work.catch((error: Error) => diskError(path, error));
  const file = await onDisk(BlockFile.create(temporary));
  try {
    try {
      for await (const piece of pieces) await onDisk(file.add(piece));
      await onDisk(file.end());
    } finally {
      await file.close();
    }
    await onDisk(rename(temporary, path));
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder(dirname(path));
}

/** Makes the rename itself last; some file systems cannot flush a folder, and there is nothing more to do on those. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r").catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}

function diskError(path: string, error: Error): never {
  throw new ModelError(`${path} cannot be written: ${reasonOf(error)}`, { cause: error });
}
