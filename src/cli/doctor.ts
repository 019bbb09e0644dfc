/** `shunya doctor`: probe, finding, and what to do about it. */
import { availableParallelism, tmpdir, totalmem } from "node:os";
import { lockLimitBytes } from "../device/locked-memory.ts";
import { loadNative } from "../device/native.ts";
import { findLeftovers, type Leftover, removeSwapFolder, swapGround } from "../device/swap-folder.ts";
import { ShunyaError } from "../errors/errors.ts";
import { exitCodes } from "../launch/exit-codes.ts";
import { formatBytes } from "../report/numbers.ts";

export interface DoctorFlags {
  /** Folders in which swap files of ended runs are looked for, beside the system's folder for temporary files. */
  readonly leftovers?: readonly string[];
  /** The same, and they are removed. */
  readonly removeLeftovers?: readonly string[];
}

const say = (name: string, finding: string): void => void process.stdout.write(`${name.padEnd(14)}${finding}\n`);

/** @returns the exit code: 0 if this machine can train @throws UsageError for a folder that cannot be used */
export function runDoctor(trainsOn: string, { leftovers = [], removeLeftovers = [] }: DoctorFlags): number {
  for (const folder of [...leftovers, ...removeLeftovers]) swapGround(folder);
  say("devices", trainsOn);
  say("node", `${process.version} on ${process.platform}-${process.arch} (wanted: 20.19 or newer)`);
  say("cores", String(availableParallelism()));
  say("memory", formatBytes(totalmem()));
  const limit = lockLimitBytes();
  say(
    "page-locked",
    limit === undefined ? "no limit is known" : `${formatBytes(limit)} a process for pin_memory (ulimit -l)`,
  );
  const exitCode = sayNative();
  for (const folder of new Set([...leftovers, ...removeLeftovers, tmpdir()]))
    sayLeftovers(folder, removeLeftovers.includes(folder));
  return exitCode;
}

function sayNative(): number {
  try {
    const { available, selected } = loadNative().isa();
    say("native core", `built; instruction sets ${available.join(", ")}; in use: ${selected}`);
    return exitCodes.ok;
  } catch (error) {
    say("native core", error instanceof ShunyaError ? error.message : `cannot be loaded: ${(error as Error).message}`);
    return exitCodes.user;
  }
}

/** Shows them before anything is removed. */
function sayLeftovers(folder: string, isRemoved: boolean): void {
  const found = findLeftovers(folder);
  say("leftovers", `${found.length || "no"} swap folder${found.length === 1 ? "" : "s"} of ended runs in ${folder}`);
  for (const leftover of found) say("", describe(leftover));
  if (found.length === 0) return;
  if (!isRemoved) say("", `to remove them: shunya doctor --remove-leftovers ${folder}`);
  else {
    for (const { path } of found) removeSwapFolder(path);
    say("", "removed");
  }
}

function describe({ path, bytes, pid, startedAt }: Leftover): string {
  return `${path}: ${formatBytes(bytes)}, of process ${pid} that began at ${startedAt}`;
}
