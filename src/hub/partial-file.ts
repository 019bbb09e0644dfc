/**
 * A file that is being fetched. Its name says who fetches it, so that two processes do not write to one file, and so that what a
 * process left behind (however it ended) is gone on with by the next.
 */

import { createHash, randomBytes } from "node:crypto";
import { type FileHandle, open, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** What has not grown for so long is nobody's, whoever seems to have it: process numbers are used again. */
const abandonedMs = 10 * 60_000;
const lookAgainMs = 500;
/** The time of a file that was given back: long ago. */
const nobodys = new Date(0);

/** A process in a container often has the number of the one before. */
const ownPaths = new Set<string>();

const hostId = createHash("sha256").update(hostname()).digest("hex").slice(0, 8);

export interface ClaimOptions {
  /** Of the file when it is complete. */
  readonly path: string;
  /** Said once, while another process fetches the same file. */
  readonly onWait: () => void;
}

export class PartialFile {
  readonly path: string;
  readonly handle: FileHandle;
  readonly #final: string;

  private constructor(path: string, handle: FileHandle, final: string) {
    this.path = path;
    this.handle = handle;
    this.#final = final;
  }

  /** Waits while a living process has it. Undefined where the file became complete meanwhile. */
  static async claim({ path, onWait }: ClaimOptions): Promise<PartialFile | undefined> {
    const [folder, name] = [dirname(path), basename(path)];
    let hasTold = false;
    for (;;) {
      if (await stat(path).catch(() => undefined)) return undefined;
      const found = await partialsOf(folder, name);
      if (found.some((partial) => partial.isHeld)) {
        if (!hasTold) onWait();
        hasTold = true;
        await sleep(lookAgainMs);
        continue;
      }
      const own = join(folder, `${name}.${hostId}-${process.pid}-${randomBytes(4).toString("hex")}.incomplete`);
      ownPaths.add(own);
      const [largest] = found.sort((a, b) => b.bytes - a.bytes);
      const handle = await openOwn(largest?.path, own);
      if (!handle) continue;
      // Two that looked at once both see now that there are two: the first by name goes on.
      const held = (await partialsOf(folder, name)).filter((partial) => partial.isHeld || partial.path === own);
      if (held.every((partial) => partial.path >= own)) return new PartialFile(own, handle, path);
      await handle.close();
      await giveBack(own, path);
    }
  }

  /** Gives the complete file its name. */
  async publish(): Promise<void> {
    await this.handle.sync();
    await this.handle.close();
    await rename(this.path, this.#final);
  }

  /** Leaves what there is to whoever fetches the file next, Hugging Face's own tools among them. */
  async leave(): Promise<void> {
    await this.handle.close();
    await giveBack(this.path, this.#final);
  }
}

/** Of the largest part that is there of a file; 0 where there is none. */
export async function heldBytes(path: string): Promise<number> {
  const found = await partialsOf(dirname(path), basename(path));
  return Math.max(0, ...found.map(({ bytes }) => bytes));
}

/** Undefined where another process was quicker. */
async function openOwn(left: string | undefined, own: string): Promise<FileHandle | undefined> {
  if (left === undefined) return open(own, "wx+");
  try {
    await rename(left, own);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  return open(own, "r+");
}

async function giveBack(own: string, final: string): Promise<void> {
  const { size } = await stat(own);
  if (size === 0) await rm(own);
  else {
    await utimes(own, nobodys, nobodys);
    await rename(own, `${final}.incomplete`);
  }
}

interface Found {
  readonly path: string;
  readonly bytes: number;
  readonly isHeld: boolean;
}

async function partialsOf(folder: string, name: string): Promise<Found[]> {
  const names = (await readdir(folder)).filter((file) => file.startsWith(`${name}.`) && file.endsWith(".incomplete"));
  const found = await Promise.all(
    names.map(async (file): Promise<Found[]> => {
      const path = join(folder, file);
      const status = await stat(path).catch(() => undefined);
      if (!status) return [];
      const isRecent = Date.now() - status.mtimeMs < abandonedMs;
      const isEarlierRuns = file.includes(`-${process.pid}-`) && !ownPaths.has(path);
      return [{ path, bytes: status.size, isHeld: !isEarlierRuns && isHeld(file.slice(name.length + 1), isRecent) }];
    }),
  );
  return found.flat();
}

/** @param ending what follows the name of the complete file; without a process, it is that of Hugging Face's tools */
function isHeld(ending: string, isRecent: boolean): boolean {
  const [, host, pid] = /^([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\.incomplete$/.exec(ending) ?? [];
  return isRecent && (host !== hostId || isRunning(Number(pid)));
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
