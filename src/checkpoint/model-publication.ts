/**
 * A model that is written into a hidden folder beside the one it replaces, and takes its place by renames once it is complete and on
 * disk. Whatever ends the writing before (a full disk, `kill -9`), the old one is there as it was.
 */
import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { ModelError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { syncFolder } from "./atomic-file.ts";
import { configName, safetensorsNames } from "./weight-names.ts";

const partialPattern = /^\.model\.partial-[0-9a-f]{8}$/;
const weightPattern = /^model(-\d+-of-\d+)?\.safetensors(\.index\.json)?$/;

export class ModelPublication implements AsyncDisposable {
  /** Gets the new files. */
  readonly folder: string;
  readonly #target: string;

  private constructor(target: string) {
    this.#target = target;
    this.folder = join(target, `.model.partial-${randomBytes(4).toString("hex")}`);
  }

  /** Makes the folders, and takes away what a killed run left. @throws ModelError where they cannot be made */
  static async begin(target: string): Promise<ModelPublication> {
    const publication = new ModelPublication(target);
    try {
      await mkdir(target, { recursive: true });
      for (const name of await readdir(target))
        if (partialPattern.test(name)) await rm(join(target, name), { recursive: true, force: true });
      await mkdir(publication.folder);
    } catch (error) {
      throw new ModelError(`${target} cannot be made a model folder: ${reasonOf(error)}`, { cause: error });
    }
    return publication;
  }

  /** @param weights all new files but config.json @throws ModelError where the folder cannot be changed */
  async publish(weights: readonly string[]): Promise<void> {
    await syncFolder(this.folder);
    try {
      const there = (await readdir(this.#target)).filter((name) => weightPattern.test(name));
      const stale = there.filter((name) => !weights.includes(name));
      // One file for one file is one rename. In all other cases a folder without its config.json is better than one whose
      // shards are of two models, should the machine fail between two renames.
      const isOneRename =
        stale.length === 0 && weights.join() === safetensorsNames.file && (await this.#hasSameConfig());
      if (there.length > 0 && !isOneRename) {
        await rm(join(this.#target, configName), { force: true });
        await syncFolder(this.#target);
      }
      for (const name of stale) await rm(join(this.#target, name));
      for (const name of [...weights, configName]) await rename(join(this.folder, name), join(this.#target, name));
      await syncFolder(this.#target);
    } catch (error) {
      throw new ModelError(`the model in ${this.#target} cannot be replaced: ${reasonOf(error)}`, {
        cause: error,
      });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }

  async #hasSameConfig(): Promise<boolean> {
    const read = (folder: string): Promise<string> => readFile(join(folder, configName), "utf8").catch(() => "");
    return (await read(this.folder)) === (await read(this.#target));
  }
}
