/**
 * Files that were made tokens before: a token file and beside it a small JSON, named by everything that they depend on. Both are
 * written aside and renamed, the JSON last, so runs that make the same entry at once do each other no harm.
 */

import { createHash, randomBytes } from "node:crypto";
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { DataError } from "../errors/errors.ts";
import type { Finding } from "./findings.ts";
import type { TokenBytes, TokenRange } from "./token-file.ts";

/** Raised when the same files would become other tokens. */
const formatVersion = 2;
/** What a killed run left is not another run's work in progress after so long. */
const leftoverSeconds = 24 * 3600;

export interface CachedTokens {
  readonly tokens: number;
  readonly tokenBytes: TokenBytes;
  readonly largestId: number;
  readonly documents: number;
  readonly findings: readonly Finding[];
}

/** The user's cache folder of these files, where `--data-cache` names no other. */
export const defaultCacheFolder = (): string =>
  join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "shunya", "tokens");

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
  async find(name: string): Promise<{ entry: CachedTokens; range: TokenRange } | undefined> {
    try {
      const entry = JSON.parse(await readFile(this.#path(name, "json"), "utf8")) as CachedTokens;
      const { size } = await stat(this.#path(name, "tokens"));
      if (size !== entry.tokens * entry.tokenBytes) return undefined;
      return { entry, range: this.#range(name, entry) };
    } catch {
      return undefined;
    }
  }

  /** Makes an entry. @param fill writes the tokens; its errors pass through, and nothing remains @throws DataError */
  async make(
    name: string,
    fill: (handle: FileHandle) => Promise<CachedTokens>,
  ): Promise<{ entry: CachedTokens; range: TokenRange }> {
    await mkdir(this.folder, { recursive: true }).catch((error: Error) => this.#refuse(error));
    await this.#removeLeftovers();
    const aside = join(this.folder, `.${name}-${process.pid}-${randomBytes(4).toString("hex")}`);
    const [tokens, json] = [`${aside}.tokens.partial`, `${aside}.json.partial`];
    try {
      const handle = await open(tokens, "wx").catch((error: Error) => this.#refuse(error));
      let entry: CachedTokens;
      try {
        entry = await fill(handle);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await writeFile(json, JSON.stringify(entry), { flag: "wx" });
      await rename(tokens, this.#path(name, "tokens"));
      await rename(json, this.#path(name, "json"));
      return { entry, range: this.#range(name, entry) };
    } catch (error) {
      await Promise.all([tokens, json].map((path) => rm(path, { force: true })));
      if (error instanceof DataError || (error as NodeJS.ErrnoException).code === undefined) throw error;
      return this.#refuse(error as Error);
    }
  }

  #path(name: string, ending: "tokens" | "json"): string {
    return join(this.folder, `${name}.${ending}`);
  }

  #range(name: string, { tokens, tokenBytes }: CachedTokens): TokenRange {
    return { path: this.#path(name, "tokens"), tokenBytes, startByte: 0, count: tokens };
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
      `the tokens of the data cannot be kept in ${this.folder}: ${error.message}; name another folder with --data-cache`,
      { cause: error },
    );
  }
}
