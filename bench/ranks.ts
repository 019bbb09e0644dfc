/** Ranks of a benchmark: started as training starts them, each may send one result. */
import { fileURLToPath } from "node:url";
import { launchRanks } from "../src/launch/launch.ts";
import { defaultArenaBytes } from "../src/launch/world.ts";
import { createLogger } from "../src/log/logger.ts";

export const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;

/** Runs a module on every rank with `job` as its argument. @returns what each rank sent, in rank order */
export async function runRanks<R>(ranks: number, entry: URL, job: unknown): Promise<R[]> {
  const results: R[] = [];
  const launch = launchRanks({
    ranks,
    entry: fileURLToPath(entry),
    args: [JSON.stringify(job)],
    arenaBytes: defaultArenaBytes(),
    logger: createLogger(),
    onMessage: (rank, payload) => {
      results[rank] = payload as R;
    },
  });
  const { exitCode } = await launch.outcome;
  if (exitCode !== 0) throw new Error(`the benchmark's ranks ended with code ${exitCode}`);
  return results;
}
