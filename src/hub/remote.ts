/** What a hub says of a repository and of its files; none of it is believed where it could lead outside the cache. */

import { isCommit, type Repository } from "./repository.ts";
import { Hiccup, HubFailure, patiently, send } from "./requests.ts";
import type { HubSettings } from "./settings.ts";

export interface RemoteRepository {
  readonly commit: string;
  readonly names: ReadonlySet<string>;
}

export interface RemoteFile {
  readonly name: string;
  readonly url: string;
  /** Names the file's content: the SHA-256 of large files, the SHA-1 that git gives small ones. */
  readonly etag: string;
  readonly bytes: number;
  /** The server that names the content also sends it, so it can be asked to compare. */
  readonly isDirect: boolean;
}

const mostListBytes = 64e6;
const mostHops = 5;

/** @throws HubFailure where the repository or the revision cannot be had */
export async function listRepository(settings: HubSettings, repository: Repository): Promise<RemoteRepository> {
  const { owner, name, revision } = repository;
  const url = `${settings.endpoint}/api/models/${owner}/${name}/revision/${encodeURIComponent(revision)}`;
  const text = await patiently(
    settings.patience,
    () =>
      send(settings, url, {}, async (_, body) => {
        const pieces: Uint8Array[] = [];
        let bytes = 0;
        for await (const piece of body()) {
          pieces.push(piece);
          bytes += piece.length;
          if (bytes > mostListBytes) throw new HubFailure("its list of files has no end");
        }
        return Buffer.concat(pieces).toString("utf8");
      }),
    { isFirstContact: true },
  );
  const { sha, siblings } = asObject(text);
  if (typeof sha !== "string" || !isCommit(sha) || !Array.isArray(siblings))
    throw new HubFailure(`${url} did not answer with a commit and a list of files; is it a Hugging Face hub?`);
  const names = siblings.map((file: unknown) => (file as { rfilename?: unknown } | null)?.rfilename);
  return { commit: sha, names: new Set(names.filter((file) => typeof file === "string")) };
}

function asObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** What a file is, without fetching it. @throws HubFailure */
export async function headFile(
  settings: HubSettings,
  { owner, name }: Repository,
  commit: string,
  file: string,
): Promise<RemoteFile> {
  const url = `${settings.endpoint}/${owner}/${name}/resolve/${commit}/${encodeURIComponent(file)}`;
  const found = await patiently(settings.patience, () => headOf(settings, url));
  const etag = found.etag?.replace(/^W\//, "").replaceAll('"', "") ?? "";
  if (!/^[0-9A-Za-z][\w.-]{0,127}$/.test(etag) || !Number.isSafeInteger(found.bytes) || found.bytes < 0)
    throw new HubFailure(`${url} came without a usable ETag and size; is it a Hugging Face hub?`);
  return { name: file, url, etag, bytes: found.bytes, isDirect: found.isDirect };
}

interface Head {
  readonly etag: string | null;
  readonly bytes: number;
  readonly isDirect: boolean;
}

/** Large files are sent from elsewhere: the hub's own answer, which leads there, says what they are. */
async function headOf(settings: HubSettings, url: string): Promise<Head> {
  let at = url;
  for (let hop = 0; hop <= mostHops; hop++) {
    const found = await send(settings, at, { method: "HEAD", redirect: "manual" }, async ({ status, headers }) => {
      const location = headers.get("location");
      const leadsOn = status >= 300 && status < 400 && location !== null;
      const linked = headers.get("x-linked-etag");
      const bytes = Number(headers.get("x-linked-size") ?? headers.get("content-length") ?? Number.NaN);
      if (leadsOn && linked === null) return new URL(location, at);
      return { etag: linked ?? headers.get("etag"), bytes, isDirect: !leadsOn && linked === null };
    });
    if (!(found instanceof URL)) return found;
    // A token is for the hub alone, and so is its word on what a file is.
    if (found.origin !== new URL(settings.endpoint).origin)
      throw new HubFailure(`${at} leads to ${found.origin} without saying what the file is`);
    at = found.href;
  }
  throw new Hiccup(`${url} leads on and on`);
}
