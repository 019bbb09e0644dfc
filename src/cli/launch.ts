/** `shunya launch`: a user's own script on N ranks. */
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { UsageError } from "../errors/errors.ts";
import { launchRanks } from "../launch/launch.ts";
import { defaultArenaBytes } from "../launch/world.ts";
import type { Logger } from "../log/logger.ts";

/** @returns the exit code */
export async function runLaunch(
  ranks: number,
  script: string,
  args: readonly string[],
  logger: Logger,
): Promise<number> {
  const entry = resolve(script);
  if (!statSync(entry, { throwIfNoEntry: false })?.isFile())
    throw new UsageError(`${script}: no such file; give the path of a .ts or .js module`);
  const launch = launchRanks({ ranks, entry, args, arenaBytes: defaultArenaBytes(), logger });
  return (await launch.outcome).exitCode;
}
