/**
 * Files that were made tokens before: a token file, for instruction data an index of its samples, and beside them a small JSON, named by
 * everything that they depend on. They are written aside and renamed, the JSON last, so runs that make the same entry at once do each
 * other no harm.
 */

import { createHash, randomBytes } from "node:crypto";
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { DataError, ShunyaError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import type { Finding } from "./findings.ts";
import { recordBytes, type SampleRange } from "./sample-file.ts";
import type { TokenBytes, TokenRange } from "./token-file.ts";

/** Raised when the same files would become other tokens. */
const formatVersion = 3;
/** What a killed run left is not another run's work in progress after so long. */
const leftoverSeconds = 24 * 3600;

export interface CachedTokens {
  readonly tokens: number;
  readonly tokenBytes: TokenBytes;
  readonly largestId: number;
  readonly documents: number;
  /** Of instruction data: how many there are; what they are stands in a file beside the tokens (sample-file.ts). */
  readonly samples?: number;
  readonly findings: readonly Finding[];
}

/** The user's cache folder of these files, where `--data-cache` names no other. */
export const defaultCacheFolder = (): string =>
  join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "shunya", "tokens");

export interface CacheEntry {
  readonly entry: CachedTokens;
  readonly range: TokenRange;
  /** Of instruction data. */
  readonly samples: SampleRange | undefined;
}

const endings = ["tokens", "samples", "json"] as const;
type Ending = (typeof endings)[number];

export class TokenCache {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
  }

  /** Name of the entry for what `key` says: files, tokenizer, options. Plain JSON. */
  nameOf(key: object): string {
    const text = JSON.stringify({ formatVersion, ...key });
    return createHash("sha256").update(text).digest("hex").slice(0, 32);
  }

  /** The entry, or undefined where there is none that is whole. */
  async find(name: string): Promise<CacheEntry | undefined> {
    try {
      const entry = JSON.parse(await readFile(this.#path(name, "json"), "utf8")) as CachedTokens;
      const { size } = await stat(this.#path(name, "tokens"));
      if (size !== entry.tokens * entry.tokenBytes) return undefined;
      if (entry.samples !== undefined) {
        const { size: indexBytes } = await stat(this.#path(name, "samples"));
        if (indexBytes !== entry.samples * recordBytes) return undefined;
      }
      await this.#noteUse(name);
      return this.#entry(name, entry);
    } catch {
      return undefined;
    }
  }

  /** The time of its files is that of their last use, for whoever tidies up. It stays where the folder is only read. */
  async #noteUse(name: string): Promise<void> {
    const now = new Date();
    await Promise.all(endings.map((ending) => utimes(this.#path(name, ending), now, now).catch(() => undefined)));
  }

  /**
   * Makes an entry. @param fill writes the tokens, and the index where there are samples; its errors pass through, and nothing remains
   * @throws DataError
   */
  async make(
    name: string,
    fill: (tokens: FileHandle, samples: FileHandle) => Promise<CachedTokens>,
  ): Promise<CacheEntry> {
    await mkdir(this.folder, { recursive: true }).catch((error: Error) => this.#refuse(error));
    await this.#removeLeftovers();
    const aside = join(this.folder, `.${name}-${process.pid}-${randomBytes(4).toString("hex")}`);
    const partial = (ending: Ending): string => `${aside}.${ending}.partial`;
    const handles: FileHandle[] = [];
    try {
      let entry: CachedTokens;
      try {
        for (const ending of ["tokens", "samples"] as const)
          handles.push(await open(partial(ending), "wx").catch((error: Error) => this.#refuse(error)));
        entry = await fill(handles[0]!, handles[1]!);
        for (const handle of handles) await handle.sync();
      } finally {
        for (const handle of handles) await handle.close();
      }
      await writeFile(partial("json"), JSON.stringify(entry), { flag: "wx" });
      if (entry.samples === undefined) await rm(partial("samples"));
      const made = endings.filter((ending) => ending !== "samples" || entry.samples !== undefined);
      for (const ending of made) await rename(partial(ending), this.#path(name, ending));
      return this.#entry(name, entry);
    } catch (error) {
      await Promise.all(endings.map((ending) => rm(partial(ending), { force: true })));
      if (error instanceof ShunyaError || (error as NodeJS.ErrnoException).code === undefined) throw error;
      return this.#refuse(error as Error);
    }
  }

  #path(name: string, ending: Ending): string {
    return join(this.folder, `${name}.${ending}`);
  }

  #entry(name: string, entry: CachedTokens): CacheEntry {
    const { tokens, tokenBytes, samples: count } = entry;
    const path = this.#path(name, "tokens");
    const samples = count === undefined ? undefined : { path, index: this.#path(name, "samples"), first: 0, count };
    return { entry, range: { path, tokenBytes, startByte: 0, count: tokens }, samples };
  }

  async #removeLeftovers(): Promise<void> {
    for (const name of await readdir(this.folder)) {
      if (!name.endsWith(".partial")) continue;
      const path = join(this.folder, name);
      const found = await stat(path).catch(() => undefined);
      if (found && Date.now() - found.mtimeMs > leftoverSeconds * 1000) await rm(path, { force: true });
    }
  }

  #refuse(error: Error): never {
    throw new DataError(
      `the tokens of the data cannot be kept in ${this.folder}: ${reasonOf(error)}; name another folder with --data-cache`,
      { cause: error },
    );
  }
}
