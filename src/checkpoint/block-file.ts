/**
 * A new file, written from its beginning to its end in blocks that go straight to the drive (direct I/O): the system's page cache
 * would take as much memory as the file, and hold writers up at moments of its own. Where a file system has no direct I/O the same
 * blocks go through the cache.
 */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { loadNative } from "../device/native.ts";
import { diskAlignmentBytes } from "../device/swap.ts";
import { directFlag, isDirectRefusal } from "./direct-io.ts";

const blockBytes = 4 * 1024 * 1024;
/** One is filled while the others are being written. */
const blockCount = 3;

const isNew = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;

/** Errors are the system's own. */
export class BlockFile {
  readonly #path: string;
  readonly #isDirect: boolean;
  #handle: FileHandle;
  #leaving: Promise<void> | undefined;
  #before: FileHandle | undefined;
  /** Blocks that nothing is in. */
  readonly #free: Uint8Array[] = [];
  #made = 0;
  readonly #writing: Promise<Uint8Array>[] = [];
  #block: Uint8Array | undefined;
  #filled = 0;
  /** Where the block that is being filled begins. */
  #position = 0;

  private constructor(path: string, handle: FileHandle, isDirect: boolean) {
    this.#path = path;
    this.#handle = handle;
    this.#isDirect = isDirect;
  }

  /** @param path of a file that is not there */
  static async create(path: string): Promise<BlockFile> {
    try {
      return new BlockFile(path, await open(path, isNew | directFlag, 0o666), directFlag !== 0);
    } catch (error) {
      if (!isDirectRefusal(error)) throw error;
      // Some systems make the file before they refuse direct I/O.
      return new BlockFile(path, await open(path, constants.O_WRONLY | constants.O_CREAT, 0o666), false);
    }
  }

  /** Takes a copy of `bytes`, and waits where the drive is behind. */
  async add(bytes: Uint8Array): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      this.#block ??= await this.#take();
      const part = bytes.subarray(done, done + blockBytes - this.#filled);
      this.#block.set(part, this.#filled);
      this.#filled += part.length;
      done += part.length;
      if (this.#filled === blockBytes) this.#write(blockBytes);
    }
  }

  /** Resolves when everything is on disk. */
  async end(): Promise<void> {
    const bytes = this.#position + this.#filled;
    if (this.#filled > 0) this.#write(Math.ceil(this.#filled / diskAlignmentBytes) * diskAlignmentBytes);
    await Promise.all(this.#writing);
    await this.#handle.truncate(bytes);
    await this.#handle.sync();
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#writing);
    await this.#handle.close();
    await this.#before?.close();
  }

  async #take(): Promise<Uint8Array> {
    const free = this.#free.pop();
    if (free) return free;
    if (this.#made === blockCount) return this.#writing.shift()!;
    this.#made++;
    return new Uint8Array(loadNative().alignedMemory(blockBytes));
  }

  /** @param bytes a multiple of the drive's alignment */
  #write(bytes: number): void {
    const written = this.#writeAll(this.#block!, bytes, this.#position);
    written.catch(() => undefined); // told where it is awaited
    this.#writing.push(written);
    this.#position += this.#filled;
    this.#filled = 0;
    this.#block = undefined;
  }

  async #writeAll(block: Uint8Array, bytes: number, position: number): Promise<Uint8Array> {
    for (let done = 0; done < bytes; ) {
      const written = await this.#writeSome(block, done, bytes - done, position + done);
      // A full drive takes a part; direct I/O goes on at a border of its own, and is told what is wrong there.
      const taken = Math.floor(written / diskAlignmentBytes) * diskAlignmentBytes;
      if (taken === 0) throw new Error(`ENOSPC: ${written} of ${bytes - done} bytes were taken, write`);
      done += taken;
    }
    return block;
  }

  async #writeSome(block: Uint8Array, offset: number, bytes: number, position: number): Promise<number> {
    try {
      return (await this.#handle.write(block, offset, bytes, position)).bytesWritten;
    } catch (error) {
      if (!this.#isDirect || !isDirectRefusal(error)) throw error;
      await this.#leaveDirect();
      return (await this.#handle.write(block, offset, bytes, position)).bytesWritten;
    }
  }

  /** The file system took the flag, and refuses what it means: the file is opened once more without it. */
  #leaveDirect(): Promise<void> {
    this.#leaving ??= open(this.#path, "r+").then((handle) => {
      this.#before = this.#handle;
      this.#handle = handle;
    });
    return this.#leaving;
  }
}
