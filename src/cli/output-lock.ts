/** One training run at a time for an output folder: two would overwrite each other's model, and each call it its own. */
import {
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { dirname, resolve } from "node:path";
import { UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";

/** A file beside the folder that names the process; one whose process is gone is taken over. */
export class OutputLock implements Disposable {
  readonly #path: string;
  readonly #text = JSON.stringify({ pid: process.pid, host: hostname() });

  /** @throws UsageError while another process holds it */
  constructor(output: string) {
    this.#path = `${resolve(output)}.lock`;
    try {
      mkdirSync(dirname(this.#path), { recursive: true });
      this.#take(output);
    } catch (error) {
      if (error instanceof UsageError) throw error;
      throw new UsageError(`--output ${output}: its lock file cannot be written: ${reasonOf(error)}`);
    }
  }

  #take(output: string): void {
    // Written aside and linked: the lock is there with its content or not at all, and never replaces another.
    const aside = `${this.#path}.${process.pid}`;
    writeFileSync(aside, this.#text);
    try {
      while (!link(aside, this.#path)) this.#clear(output);
    } finally {
      rmSync(aside, { force: true });
    }
  }

  /** Takes away the lock of a process that is gone. @throws UsageError where it still runs */
  #clear(output: string): void {
    const text = readLock(this.#path);
    if (text === undefined) return;
    const holder = holderOf(text);
    if (isRunning(holder))
      throw new UsageError(
        `--output ${output} is being written by process ${holder.pid} on ${holder.host}; wait for it or name another ` +
          `folder (or delete ${this.#path} if that process is no training run)`,
      );
    // Another process may take it over at the same time: what was moved is what was read, or else is put back.
    const moved = `${this.#path}.${process.pid}.gone`;
    try {
      renameSync(this.#path, moved);
      if (readLock(moved) !== text) link(moved, this.#path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    } finally {
      rmSync(moved, { force: true });
    }
  }

  /** Leaves a lock that somebody else took over. */
  [Symbol.dispose](): void {
    if (existsSync(this.#path) && readLock(this.#path) === this.#text) rmSync(this.#path, { force: true });
  }
}

/** @returns false where there is a file of that name already */
function link(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return false;
    if (code === undefined || !withoutLinks.has(code)) throw error;
    return copy(from, to);
  }
}

/** What file systems say that have no links. */
const withoutLinks: ReadonlySet<string> = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

function copy(from: string, to: string): boolean {
  try {
    copyFileSync(from, to, constants.COPYFILE_EXCL);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

interface Holder {
  readonly pid: number;
  readonly host: string;
}

/** Undefined where there is no such file. */
function readLock(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Of nobody where a full disk left the file empty. */
function holderOf(text: string): Holder {
  try {
    const { pid, host } = JSON.parse(text) as Partial<Holder>;
    return { pid: Number(pid), host: String(host) };
  } catch {
    return { pid: Number.NaN, host: hostname() };
  }
}

/** Of another machine's processes nothing is known, so they count as running. */
function isRunning({ pid, host }: Holder): boolean {
  if (host !== hostname()) return true;
  if (!Number.isSafeInteger(pid) || pid <= 0 || pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
