/** One training run at a time for an output folder: two would overwrite each other's model, and each call it its own. */
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, resolve } from "node:path";
import { UsageError } from "../errors/errors.ts";

/** A file beside the folder that names the process; one whose process is gone is taken over. */
export class OutputLock implements Disposable {
  readonly #path: string;

  /** @throws UsageError while another process holds it */
  constructor(output: string) {
    this.#path = `${resolve(output)}.lock`;
    try {
      mkdirSync(dirname(this.#path), { recursive: true });
      this.#take(output);
    } catch (error) {
      if (error instanceof UsageError) throw error;
      throw new UsageError(`--output ${output}: its lock file cannot be written: ${(error as Error).message}`);
    }
  }

  #take(output: string): void {
    const holder = holderOf(this.#path);
    if (holder !== undefined) {
      if (isRunning(holder))
        throw new UsageError(
          `--output ${output} is being written by process ${holder.pid} on ${holder.host}; wait for it or name another ` +
            `folder (or delete ${this.#path} if that process is no training run)`,
        );
      rmSync(this.#path, { force: true });
    }
    const descriptor = openSync(this.#path, "wx");
    writeSync(descriptor, JSON.stringify({ pid: process.pid, host: hostname() }));
    closeSync(descriptor);
  }

  [Symbol.dispose](): void {
    rmSync(this.#path, { force: true });
  }
}

interface Holder {
  readonly pid: number;
  readonly host: string;
}

/** Undefined where there is no such file, or one that a full disk left empty. */
function holderOf(path: string): Holder | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
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
