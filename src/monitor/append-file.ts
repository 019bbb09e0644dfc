/** A file that grows while training runs. Every write reaches the system at once, so that a crash loses nothing that was written. */
import { appendFileSync, closeSync, fstatSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { isReplaceable, makeFolder } from "./earlier-file.ts";

/** The folders output_path and job_name. */
export const monitorLevels = 2;

export interface AppendFileOptions {
  /** Names the file in errors. */
  readonly setting: string;
  /** What an empty file begins with; what another one has to begin with. */
  readonly head?: string | Uint8Array;
  /** Where every file of the kind has the same first words, but no fixed head. */
  readonly firstWords?: string;
  /** How many folders are made where the file lies outside the working directory. */
  readonly levels: number;
}

export class AppendFile {
  readonly #descriptor: number;

  /** Makes the file and its folders, or goes on at the end of one of its own kind. @throws UsageError */
  constructor(path: string, { setting, head = "", firstWords, levels }: AppendFileOptions) {
    const begin = firstWords ?? (typeof head === "string" ? head : "");
    try {
      makeFolder(dirname(path), levels);
      if (!isReplaceable(path, (found) => found.startsWith(begin), `${setting}: ${path}`))
        throw new Error("it holds something else; remove it first");
      this.#descriptor = openSync(path, "a");
      if (fstatSync(this.#descriptor).size === 0) this.append(head);
    } catch (error) {
      if (error instanceof UsageError) throw error;
      throw new UsageError(`${setting}: ${path} cannot be written: ${reasonOf(error)}, or give another path`);
    }
  }

  /** @throws the system's error, of a full disk for instance */
  append(content: string | Uint8Array): void {
    appendFileSync(this.#descriptor, content);
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}
