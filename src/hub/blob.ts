/** One file's content, fetched into the cache under its ETag: gone on with where it stopped, and checked before it has its name. */

import { createHash, type Hash } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { PartialFile } from "./partial-file.ts";
import type { RemoteFile } from "./remote.ts";
import { Hiccup, HubFailure, patiently, send } from "./requests.ts";
import type { HubSettings } from "./settings.ts";

/** The file is no longer the one that was asked about. */
export class ChangedFile extends Error {}

export interface BlobTeller {
  /** Bytes of this file that are there. */
  onBytes(bytes: number): void;
  /** Another process fetches the same file. */
  onWait(): void;
}

/** Content that is not what its name says is fetched once more: a proxy may have answered in the hub's place. */
const mostWrong = 2;

/** @throws HubFailure, ChangedFile; what has come by then is kept */
export async function fetchBlob(
  settings: HubSettings,
  file: RemoteFile,
  blobs: string,
  { onBytes, onWait }: BlobTeller,
): Promise<string> {
  const path = join(blobs, file.etag);
  const partial = await PartialFile.claim({ path, onWait });
  if (!partial) return path;
  let isPublished = false;
  try {
    let held = Math.min((await partial.handle.stat()).size, file.bytes);
    let wrong = 0;
    const tell = (bytes: number): void => {
      held = bytes;
      onBytes(bytes);
    };
    const once = async (): Promise<void> => {
      if (held < file.bytes) await fetchRest(settings, file, partial, held, tell);
      const problem = await wrongContent(partial, file);
      if (problem === undefined) return;
      await partial.handle.truncate(0);
      tell(0);
      wrong++;
      throw wrong < mostWrong ? new Hiccup(problem) : new HubFailure(problem);
    };
    await patiently(settings.patience, once, { progress: () => held });
    await partial.publish();
    isPublished = true;
    return path;
  } finally {
    if (!isPublished) await partial.leave();
  }
}

/** From byte `held` on, or from the first where the server does not give parts. */
async function fetchRest(
  settings: HubSettings,
  file: RemoteFile,
  partial: PartialFile,
  held: number,
  tell: (bytes: number) => void,
): Promise<void> {
  const ifSame = file.isDirect ? { "if-range": `"${file.etag}"` } : {};
  const headers: Record<string, string> = held === 0 ? {} : { range: `bytes=${held}-`, ...ifSame };
  await send(settings, file.url, { headers }, async (response, body) => {
    const etag = response.headers.get("etag");
    if (!response.redirected && file.isDirect && etag !== null && etag.replace(/^W\//, "") !== `"${file.etag}"`) {
      await partial.handle.truncate(0);
      throw new ChangedFile(`${file.name} changed while it was fetched`);
    }
    let position = firstByte(response, held, file.bytes);
    if (position === 0) {
      await partial.handle.truncate(0);
      tell(0);
    }
    if (response.status === 416) throw new Hiccup("the server has no such part of the file");
    for await (const piece of body()) {
      if (position + piece.length > file.bytes)
        throw new Hiccup(`more than the ${file.bytes} bytes of ${file.name} came`);
      await writeAll(partial, piece, position);
      position += piece.length;
      tell(position);
    }
    if (position < file.bytes) throw new Hiccup(`the connection ended at byte ${position} of ${file.bytes}`);
  });
}

/** Where in the file the body of an answer begins. */
function firstByte({ status, headers }: Response, asked: number, bytes: number): number {
  if (status !== 206) return 0;
  const [, first, all] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers.get("content-range") ?? "") ?? [];
  if (Number(first) === asked && (all === "*" || Number(all) === bytes)) return asked;
  throw new Hiccup(
    `the server sent ${headers.get("content-range") ?? "a part without its place"}; wanted byte ${asked} on`,
  );
}

async function writeAll({ handle }: PartialFile, piece: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < piece.length; )
    done += (await handle.write(piece, done, piece.length - done, position + done)).bytesWritten;
}

/** What is wrong with a file that has all its bytes. An ETag that is no checksum can say nothing. */
async function wrongContent(partial: PartialFile, { etag, name, bytes }: RemoteFile): Promise<string | undefined> {
  const { size } = await stat(partial.path);
  if (size !== bytes) return `${name} has ${size} bytes; wanted ${bytes}`;
  const hash = hashFor(etag, bytes);
  if (!hash) return undefined;
  const piece = new Uint8Array(1 << 20);
  for (let position = 0; position < bytes; ) {
    const { bytesRead } = await partial.handle.read(piece, 0, piece.length, position);
    if (bytesRead === 0) break;
    hash.update(piece.subarray(0, bytesRead));
    position += bytesRead;
  }
  const found = hash.digest("hex");
  return found === etag ? undefined : `${name} has checksum ${found}; wanted ${etag}, by which the hub names it`;
}

/** Large files are named by their SHA-256, others by what git calls such a blob. */
function hashFor(etag: string, bytes: number): Hash | undefined {
  if (/^[0-9a-f]{64}$/.test(etag)) return createHash("sha256");
  return /^[0-9a-f]{40}$/.test(etag) ? createHash("sha1").update(`blob ${bytes}\0`) : undefined;
}
