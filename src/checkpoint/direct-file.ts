/**
 * A file that is read past the system's page cache (direct I/O), which would copy every byte and keep it. Where a file system has no
 * direct I/O it is read through the cache.
 */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { diskAlignmentBytes } from "../device/swap.ts";
import { directFlag, isDirectRefusal } from "./direct-io.ts";

/** Errors are the system's own. */
export class DirectFile {
  readonly #path: string;
  #handle: Promise<FileHandle>;
  /** What was opened for direct I/O, where that was refused later. */
  #refused: FileHandle | undefined;
  #isDirect: boolean;

  private constructor(path: string, handle: FileHandle, isDirect: boolean) {
    this.#path = path;
    this.#handle = Promise.resolve(handle);
    this.#isDirect = isDirect;
  }

  static async open(path: string): Promise<DirectFile> {
    try {
      return new DirectFile(path, await open(path, constants.O_RDONLY | directFlag), directFlag !== 0);
    } catch (error) {
      if (!isDirectRefusal(error)) throw error;
      return new DirectFile(path, await open(path, "r"), false);
    }
  }

  /**
   * Fills `into` from `position` on. The address, the length and the position are multiples of the drive's alignment.
   * @returns the bytes that were there: fewer than wanted only where the file ends
   */
  async read(into: Uint8Array, position: number): Promise<number> {
    for (let done = 0; ; ) {
      const bytesRead = await this.#readSome(into, done, position + done);
      done += bytesRead;
      // Direct I/O ends within a unit of the drive only where the file does, and cannot go on from there.
      const isAtEnd = bytesRead === 0 || (this.#isDirect && done % diskAlignmentBytes !== 0);
      if (done === into.length || isAtEnd) return done;
    }
  }

  async close(): Promise<void> {
    await this.#refused?.close();
    await (await this.#handle).close();
  }

  async #readSome(into: Uint8Array, done: number, position: number): Promise<number> {
    const handle = await this.#handle;
    try {
      return (await handle.read(into, done, into.length - done, position)).bytesRead;
    } catch (error) {
      if (!isDirectRefusal(error) || !(this.#isDirect || handle === this.#refused)) throw error;
      this.#leaveDirect(handle);
      return (await (await this.#handle).read(into, done, into.length - done, position)).bytesRead;
    }
  }

  /** The file system took the flag, and refuses what it means: the file is opened once more without it. */
  #leaveDirect(handle: FileHandle): void {
    if (!this.#isDirect) return;
    this.#isDirect = false;
    this.#refused = handle;
    this.#handle = open(this.#path, "r");
  }
}
