/** `shunya launch`: a user's own script on N ranks. */
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
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
  const advice = "give the path of a .ts or .js module";
  try {
    if (!statSync(entry).isFile()) throw new UsageError(`${script} is no file; ${advice}`);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${script}: ${reasonOf(error)}; ${advice}`);
  }
  const launch = launchRanks({ ranks, entry, args, arenaBytes: defaultArenaBytes(), logger });
  return (await launch.outcome).exitCode;
}
