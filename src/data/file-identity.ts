/** What tells a file from the same one after a change, without reading it. */

import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { DataError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";

export interface FileIdentity {
  readonly path: string;
  readonly size: number;
  readonly modified: string;
}

/** @throws DataError for what cannot be read again */
export async function identify(paths: readonly string[]): Promise<FileIdentity[]> {
  const identities: FileIdentity[] = [];
  for (const path of paths) {
    const found = await stat(path, { bigint: true }).catch((error: NodeJS.ErrnoException) => {
      const why = error.code === "ENOENT" ? "no such file" : reasonOf(error);
      throw new DataError(`${path}: ${why}; check --data`, { cause: error });
    });
    if (!found.isFile()) throw new DataError(`${path} is not a regular file; wanted one, which can be read again`);
    identities.push({ path: resolve(path), size: Number(found.size), modified: String(found.mtimeNs) });
  }
  return identities;
}

/** What `onRead` of these files' readers adds up to. @param onProgress told bytes read of all bytes */
export function progressOf(
  files: readonly FileIdentity[],
  onProgress: ((readBytes: number, allBytes: number) => void) | undefined,
): (bytes: number) => void {
  const allBytes = bytesOf(files);
  let readBytes = 0;
  return (bytes) => {
    readBytes += bytes;
    onProgress?.(readBytes, allBytes);
  };
}

export const bytesOf = (files: readonly FileIdentity[]): number => files.reduce((sum, { size }) => sum + size, 0);

/** @param before as `identify` gave it for the same paths @throws DataError where a file is another now */
export async function checkUnchanged(paths: readonly string[], before: readonly FileIdentity[]): Promise<void> {
  const after = await identify(paths);
  const changed = after.findIndex((file, i) => JSON.stringify(file) !== JSON.stringify(before[i]));
  if (changed !== -1) throw new DataError(`${paths[changed]} changed while it was read; keep it unchanged`);
}
