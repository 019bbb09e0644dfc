/** A file that grows while training runs. Every write reaches the system at once, so that a crash loses nothing that was written. */
import { appendFileSync, closeSync, fstatSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { UsageError } from "../errors/errors.ts";

export class AppendFile {
  readonly #descriptor: number;

  /**
   * Makes the file and its folders, or goes on at the end of what is there.
   * @param setting names it in errors @param head what an empty file begins with @throws UsageError
   */
  constructor(path: string, setting: string, head: string | Uint8Array = "") {
    try {
      mkdirSync(dirname(path), { recursive: true });
      this.#descriptor = openSync(path, "a");
      if (fstatSync(this.#descriptor).size === 0) this.append(head);
    } catch (error) {
      throw new UsageError(
        `${setting}: ${path} cannot be written: ${(error as Error).message}; name a folder that exists or can be made`,
      );
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
