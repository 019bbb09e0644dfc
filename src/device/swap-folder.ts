/**
 * A process's own folder for swap files, inside a folder that the user named. It says whose it is, goes when the process ends by
 * itself or is asked to, and what a killed process leaves behind can be found and removed.
 */
import { randomBytes } from "node:crypto";
import {
  accessSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { hostname, uptime } from "node:os";
import { join, resolve } from "node:path";
import { UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";

const namePattern = /^shunya-swap-\d+-[0-9a-f]+$/;
const ownerFile = "owner.json";

/** The process that a folder belongs to. */
export interface SwapOwner {
  readonly pid: number;
  readonly host: string;
  /** When the folder was made, in ISO 8601. */
  readonly startedAt: string;
}

/** What a process that is gone left behind. */
export interface Leftover extends SwapOwner {
  readonly path: string;
  /** What its files take of the drive. */
  readonly bytes: number;
}

const own = new Set<string>();

/** Removes the folders that this process still has: for whoever ends it without leaving it time for more. */
export function removeOwnSwapFolders(): void {
  for (const path of own) removeSwapFolder(path);
}

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

function watchEnd(): void {
  process.on("exit", removeOwnSwapFolders);
  for (const signal of signals) process.on(signal, endBySignal);
}

function unwatchEnd(): void {
  process.off("exit", removeOwnSwapFolders);
  for (const signal of signals) process.off(signal, endBySignal);
}

/** Where nobody else listens, a signal ends a process without an exit. It still does, when the folders are gone. */
function endBySignal(signal: NodeJS.Signals): void {
  if (process.listenerCount(signal) > 1) return;
  removeOwnSwapFolders();
  process.kill(process.pid, signal);
}

export class SwapFolder implements Disposable {
  readonly path: string;

  /** @param parent a folder that exists @throws UsageError where no folder can be made in it */
  constructor(parent: string) {
    const name = `shunya-swap-${process.pid}-${randomBytes(4).toString("hex")}`;
    this.path = join(resolve(parent), name);
    // Renamed when it is complete: a folder of that name always tells its owner.
    const unfinished = join(resolve(parent), `.${name}`);
    const owner: SwapOwner = { pid: process.pid, host: hostname(), startedAt: new Date().toISOString() };
    try {
      mkdirSync(unfinished, { mode: 0o700 });
      writeFileSync(join(unfinished, ownerFile), `${JSON.stringify(owner)}\n`);
      renameSync(unfinished, this.path);
    } catch (error) {
      rmSync(unfinished, { recursive: true, force: true });
      throw new UsageError(`${parent}: no folder for swap files can be made in it: ${reasonOf(error)}`);
    }
    if (own.size === 0) watchEnd();
    own.add(this.path);
  }

  /** Where a rank's swap file lies; nothing is made. */
  file(rank: number): string {
    return join(this.path, `rank-${String(rank).padStart(4, "0")}.swap`);
  }

  [Symbol.dispose](): void {
    removeSwapFolder(this.path);
  }
}

/** Removes a swap folder with everything in it; nothing happens where there is none. */
export function removeSwapFolder(path: string): void {
  rmSync(path, { recursive: true, force: true });
  own.delete(resolve(path));
  if (own.size === 0) unwatchEnd();
}

/** Swap folders of processes that are gone, inside `parent`. Of other machines' processes nothing is known: theirs are not listed. */
export function findLeftovers(parent: string): Leftover[] {
  return ownedFolders(parent)
    .filter((owned) => !mayBeRunning(owned))
    .map((owned) => ({ ...owned, bytes: bytesIn(owned.path) }));
}

/** Removes what these processes have in `parents`: for whoever started and killed them. They need not be quite gone yet. */
export function removeSwapFoldersOf(pids: readonly number[], parents: readonly string[]): void {
  for (const { pid, host, path } of parents.flatMap(ownedFolders))
    if (host === hostname() && pids.includes(pid)) removeSwapFolder(path);
}

function ownedFolders(parent: string): (SwapOwner & { readonly path: string })[] {
  return namesIn(parent)
    .filter((name) => namePattern.test(name))
    .flatMap((name) => {
      const path = join(resolve(parent), name);
      const owner = ownerOf(path);
      return owner === undefined ? [] : [{ ...owner, path }];
    });
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function ownerOf(folder: string): SwapOwner | undefined {
  try {
    const { pid, host, startedAt } = JSON.parse(readFileSync(join(folder, ownerFile), "utf8")) as SwapOwner;
    return { pid: Number(pid), host: String(host), startedAt: String(startedAt) };
  } catch {
    return undefined;
  }
}

function mayBeRunning({ pid, host, startedAt }: SwapOwner): boolean {
  if (host !== hostname()) return true;
  // Process numbers begin anew when the machine does. A minute for clocks that were set meanwhile.
  if (Date.parse(startedAt) < Date.now() - 1000 * (uptime() + 60)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function bytesIn(folder: string): number {
  return namesIn(folder).reduce((sum, name) => {
    const found = lstatSync(join(folder, name), { throwIfNoEntry: false });
    return sum + (found?.isFile() ? found.blocks * 512 : 0);
  }, 0);
}

/** What holds of a folder that swap files shall lie in. */
export interface SwapGround {
  readonly freeBytes: number;
  /** It lies in memory (tmpfs): its bytes are the host's. */
  readonly isMemory: boolean;
}

/** @param folder must exist and be writable @throws UsageError where it is not */
export function swapGround(folder: string): SwapGround {
  const refuse = (what: string): never => {
    throw new UsageError(`${folder} ${what}; name a folder on a drive with room for swap files`);
  };
  if (!existsSync(folder)) refuse("does not exist");
  if (!statSync(folder).isDirectory()) refuse("is not a folder");
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    refuse(`cannot be written: ${reasonOf(error)}`);
  }
  const { bavail, bsize, type } = statfsSync(folder);
  return { freeBytes: bavail * bsize, isMemory: process.platform === "linux" && memoryTypes.has(type) };
}

/** What Linux calls tmpfs and ramfs. */
const memoryTypes: ReadonlySet<number> = new Set([0x01021994, 0x858458f6]);

/** @throws UsageError unless `neededBytes` fit @returns what holds of the folder */
export function checkRoom(folder: string, neededBytes: number): SwapGround {
  const ground = swapGround(folder);
  if (ground.freeBytes >= neededBytes) return ground;
  const leftovers = findLeftovers(folder);
  const leftBytes = leftovers.reduce((sum, l) => sum + l.bytes, 0);
  const hint = leftovers.length > 0 ? ` (${leftBytes} bytes there are swap files that ended runs left)` : "";
  throw new UsageError(
    `${folder} has ${ground.freeBytes} bytes free, and swap files need ${neededBytes}; ` +
      `make room${hint}, or name a folder on a larger drive`,
  );
}
