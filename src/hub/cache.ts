/** Hugging Face's cache: blobs by ETag, a folder of links for each commit, and what each branch and tag was last seen to be. */

import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Need, needsWeights, shardsOf, smallFiles } from "./needs.ts";
import { folderNameOf, isCommit, type Repository } from "./repository.ts";
import type { HubSettings } from "./settings.ts";

export class RepositoryCache {
  readonly folder: string;
  readonly #repository: Repository;

  constructor({ cache }: Pick<HubSettings, "cache">, repository: Repository) {
    this.folder = join(cache, folderNameOf(repository));
    this.#repository = repository;
  }

  get blobs(): string {
    return join(this.folder, "blobs");
  }

  snapshot(commit: string): string {
    return join(this.folder, "snapshots", commit);
  }

  /** The folder of the commit that the revision was last seen to be; undefined where it never was. */
  async find(): Promise<string | undefined> {
    const { revision } = this.#repository;
    const commit = isCommit(revision)
      ? revision
      : (await readFile(join(this.folder, "refs", revision), "utf8").catch(() => "")).trim();
    if (!isCommit(commit)) return undefined;
    const folder = this.snapshot(commit);
    return (await stat(folder).catch(() => undefined))?.isDirectory() ? folder : undefined;
  }

  /** Whether a file is there, or is known not to be in the repository. */
  async knows(commit: string, name: string): Promise<boolean> {
    return (await isThere(join(this.snapshot(commit), name))) || isThere(join(this.folder, ".no_exist", commit, name));
  }

  /** Keeps in mind that a commit does not have a file. */
  async noteAbsent(commit: string, name: string): Promise<void> {
    const path = join(this.folder, ".no_exist", commit, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, "");
  }

  /** Makes a blob a file of a commit. */
  async link(commit: string, name: string, etag: string): Promise<void> {
    const folder = this.snapshot(commit);
    await mkdir(folder, { recursive: true });
    const [path, aside] = [join(folder, name), join(folder, `.${name}.${randomBytes(4).toString("hex")}`)];
    try {
      await symlink(`../../blobs/${etag}`, aside);
    } catch (error) {
      if (!["EPERM", "ENOSYS", "ENOTSUP"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
      await rename(join(this.blobs, etag), path); // a file system without links: the file itself, as Hugging Face's tools do
      return;
    }
    await rename(aside, path).catch(async (error: Error) => {
      await rm(aside, { force: true });
      throw error;
    });
  }

  /** Only once all files are there: whoever finds the commit by its revision finds them. */
  async noteRevision(commit: string): Promise<void> {
    const { revision } = this.#repository;
    if (revision === commit) return;
    const path = join(this.folder, "refs", revision);
    await mkdir(dirname(path), { recursive: true });
    const aside = `${path}.${randomBytes(4).toString("hex")}`;
    await writeFile(aside, commit);
    await rename(aside, path);
  }
}

export const isThere = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => undefined)) !== undefined;

/** What keeps a folder from being used for a need: files by name, or words; empty where nothing does. */
export async function missingFiles(folder: string, need: Need): Promise<string[]> {
  const all = await readdir(folder).catch(() => []);
  const names = new Set<string>();
  for (const name of all) if (await isThere(join(folder, name))) names.add(name);
  const { missing, index, weights } = smallFiles(need, names);
  if (!needsWeights(need) || weights !== undefined) return [...missing];
  if (index === undefined) return [...missing, "weights"];
  const path = join(folder, index.name);
  const shards = shardsOf(path, await readFile(path, "utf8"), index.extension);
  return [...missing, ...shards.filter((shard) => !names.has(shard))];
}
