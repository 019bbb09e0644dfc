/** `shunya doctor`: probe, finding, and what to do about it. */
import { availableParallelism, totalmem } from "node:os";
import { loadNative } from "../device/native.ts";
import { ShunyaError } from "../errors/errors.ts";
import { exitCodes } from "../launch/exit-codes.ts";
import { formatBytes } from "../report/numbers.ts";

/** @returns the exit code: 0 if this machine can train */
export function runDoctor(trainsOn: string): number {
  const say = (name: string, finding: string): void => void process.stdout.write(`${name.padEnd(14)}${finding}\n`);
  say("devices", trainsOn);
  say("node", `${process.version} on ${process.platform}-${process.arch} (wanted: 20.19 or newer)`);
  say("cores", String(availableParallelism()));
  say("memory", formatBytes(totalmem()));
  try {
    const { available, selected } = loadNative().isa();
    say("native core", `built; instruction sets ${available.join(", ")}; in use: ${selected}`);
    return exitCodes.ok;
  } catch (error) {
    say("native core", error instanceof ShunyaError ? error.message : `cannot be loaded: ${(error as Error).message}`);
    return exitCodes.user;
  }
}
