/** From a model's name on a hub to a folder on this machine: from the cache where it is there, else fetched into it. */

import { mkdir, readFile, statfs } from "node:fs/promises";
import { basename, join } from "node:path";
import { parseModelConfig } from "../checkpoint/architectures.ts";
import { configName } from "../checkpoint/weight-names.ts";
import { ModelError, ShunyaError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { tokenizerName } from "../tokenizer/open.ts";
import { ChangedFile, fetchBlob } from "./blob.ts";
import { isThere, missingFiles, RepositoryCache } from "./cache.ts";
import {
  foreignWeights,
  mayLackTokenizer,
  type Need,
  needsWeights,
  shardsOf,
  smallFiles,
  wantedWeights,
} from "./needs.ts";
import { heldBytes } from "./partial-file.ts";
import { headFile, listRepository, type RemoteFile, type RemoteRepository } from "./remote.ts";
import { type Repository, titleOf } from "./repository.ts";
import { HubFailure } from "./requests.ts";
import type { HubSettings } from "./settings.ts";
import { unavailable } from "./unavailable.ts";

/** What is told while files are fetched. */
export interface FetchTeller {
  /** Before the first byte. @param heldBytes of them that are there already */
  begin(files: number, bytes: number, heldBytes: number, folder: string): void;
  /** @param heldBytes of all files of this beginning */
  progress(heldBytes: number): void;
  end(): void;
  /** What a user should know and need not act on. */
  notice(text: string): void;
}

/**
 * The folder of a snapshot that has all that is needed.
 * @throws ModelError that says what was tried, and what to copy where
 */
export async function fetchModel(
  repository: Repository,
  need: Need,
  settings: HubSettings,
  teller: FetchTeller,
): Promise<string> {
  const cache = new RepositoryCache(settings, repository);
  const cached = await cache.find();
  const missing = cached === undefined ? undefined : await missingFiles(cached, need);
  const usable = missing?.length === 0 ? cached : undefined;
  if (usable && (!mayLackTokenizer(need) || (await cache.knows(basename(usable), tokenizerName)))) return usable;
  const withoutTokenizer = (folder: string, why: string): string => {
    teller.notice(
      `${titleOf(repository)}: the cache has no ${tokenizerName} of it, and ${why}; without --tokenizer, bytes are tokens`,
    );
    return folder;
  };
  if (settings.isOffline) {
    if (usable) return withoutTokenizer(usable, "HF_HUB_OFFLINE is set");
    throw unavailable({ repository, need, settings, missing, failure: undefined });
  }
  try {
    const asked = usable ? { ...repository, revision: basename(usable) } : repository;
    return await new Fetch(asked, need, settings, cache, teller).run();
  } catch (error) {
    if (error instanceof HubFailure) {
      if (usable) return withoutTokenizer(usable, `${settings.endpoint} does not say whether it has one`);
      throw unavailable({ repository, need, settings, missing, failure: error });
    }
    if (error instanceof ShunyaError || (error as NodeJS.ErrnoException).code === undefined) throw error;
    throw new ModelError(
      `${titleOf(repository)} cannot be kept in ${cache.folder}: ${reasonOf(error)}; name another folder with HF_HUB_CACHE`,
      { cause: error },
    );
  } finally {
    teller.end();
  }
}

class Fetch {
  readonly #repository: Repository;
  readonly #need: Need;
  readonly #settings: HubSettings;
  readonly #cache: RepositoryCache;
  readonly #teller: FetchTeller;

  constructor(repository: Repository, need: Need, settings: HubSettings, cache: RepositoryCache, teller: FetchTeller) {
    this.#repository = repository;
    this.#need = need;
    this.#settings = settings;
    this.#cache = cache;
    this.#teller = teller;
  }

  async run(): Promise<string> {
    const remote = await listRepository(this.#settings, this.#repository);
    const { commit, names } = remote;
    const small = smallFiles(this.#need, names);
    if (small.missing.length > 0)
      throw new ModelError(
        `${titleOf(this.#repository)} has no ${small.missing.join(", ")}; is it another kind of thing?`,
      );
    if (needsWeights(this.#need) && !small.weights && !small.index) throw this.#noWeights(remote);
    await mkdir(this.#cache.blobs, { recursive: true });
    await this.#fetchFiles(commit, small.names);
    const folder = this.#cache.snapshot(commit);
    if (this.#need === "model") {
      // A model that is refused is refused before gigabytes are fetched.
      const path = join(folder, configName);
      parseModelConfig(await readFile(path, "utf8"), path);
    }
    if (needsWeights(this.#need)) await this.#fetchFiles(commit, await this.#weightsOf(remote, small));
    if (!names.has(tokenizerName)) await this.#cache.noteAbsent(commit, tokenizerName);
    await this.#cache.noteRevision(commit);
    return folder;
  }

  #noWeights({ names }: RemoteRepository): ModelError {
    const others = foreignWeights(names);
    const found = others.length > 0 ? ` (it has ${others.slice(0, 3).join(", ")})` : "";
    return new ModelError(
      `${titleOf(this.#repository)} has no weights that are read here${found}; wanted ` +
        `${wantedWeights(this.#need)}, or shards of them with an index`,
    );
  }

  async #weightsOf({ commit, names }: RemoteRepository, small: ReturnType<typeof smallFiles>): Promise<string[]> {
    if (small.weights !== undefined) return [small.weights];
    const { name, extension } = small.index!;
    const path = join(this.#cache.snapshot(commit), name);
    const shards = shardsOf(path, await readFile(path, "utf8"), extension);
    const absent = shards.find((shard) => !names.has(shard));
    if (absent === undefined) return shards;
    throw new ModelError(`${titleOf(this.#repository)}: ${name} names ${absent}, which the repository does not have`);
  }

  /** Those of a commit that are not there yet. */
  async #fetchFiles(commit: string, names: readonly string[]): Promise<void> {
    const folder = this.#cache.snapshot(commit);
    const files: RemoteFile[] = [];
    for (const name of names) {
      if (await isThere(join(folder, name))) continue;
      files.push(await headFile(this.#settings, this.#repository, commit, name));
    }
    if (files.length === 0) return;
    const held = await Promise.all(files.map((file) => this.#heldBytes(file)));
    const sum = (): number => held.reduce((a, b) => a + b, 0);
    const bytes = files.reduce((total, file) => total + file.bytes, 0);
    await this.#checkRoom(bytes - sum());
    this.#teller.begin(files.length, bytes, sum(), this.#cache.folder);
    for (const [i, file] of files.entries()) {
      const etag = await this.#fetchFile(commit, file, (fileBytes) => {
        held[i] = fileBytes;
        this.#teller.progress(sum());
      });
      await this.#cache.link(commit, file.name, etag);
    }
    this.#teller.end();
  }

  /** @returns the ETag of what was fetched */
  async #fetchFile(commit: string, file: RemoteFile, onBytes: (bytes: number) => void): Promise<string> {
    const { attempts } = this.#settings.patience;
    const onWait = (): void => this.#teller.notice(`${file.name} is being fetched by another process; waiting for it`);
    for (let asked = file, attempt = 1; ; attempt++) {
      try {
        await fetchBlob(this.#settings, asked, this.#cache.blobs, { onBytes, onWait });
        return asked.etag;
      } catch (error) {
        if (!(error instanceof ChangedFile)) throw error;
        if (attempt === attempts) throw new HubFailure(`${error.message}, again and again`);
        asked = await headFile(this.#settings, this.#repository, commit, file.name);
      }
    }
  }

  async #heldBytes({ etag, bytes }: RemoteFile): Promise<number> {
    const path = join(this.#cache.blobs, etag);
    return (await isThere(path)) ? bytes : Math.min(bytes, await heldBytes(path));
  }

  /** @throws ModelError where the drive has less room than is needed */
  async #checkRoom(neededBytes: number): Promise<void> {
    const { bavail, bsize } = await statfs(this.#cache.blobs);
    if (bavail * bsize >= neededBytes) return;
    const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(0)} MB`;
    throw new ModelError(
      `${titleOf(this.#repository)} needs ${megabytes(neededBytes)} more in ${this.#cache.folder}, and ${megabytes(bavail * bsize)} ` +
        "are free; make room, or name another folder with HF_HUB_CACHE",
    );
  }
}
