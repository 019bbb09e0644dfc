/**
 * Reduce-scatter and all-gather against the memory's bandwidth. The limit is what a plain copy moves while all ranks copy at
 * once; a collective moves, over all ranks, P x S bytes read and S written (reduce-scatter of S bytes over P ranks), or
 * (P-1) x S read and as many written (all-gather).
 */

import type { CollectiveJob, CollectiveSample } from "./collectives-rank.ts";
import { median, runRanks } from "./ranks.ts";

export interface CollectiveResult {
  readonly name: string;
  /** 10^9 bytes of the tensor a second. */
  readonly tensorGBs: number;
  /** Bytes moved a second, against those of the copy. */
  readonly share: number;
}

export async function measureCollectives(ranks: number, job: CollectiveJob): Promise<CollectiveResult[]> {
  const [samples] = await runRanks<CollectiveSample[]>(ranks, new URL("./collectives-rank.ts", import.meta.url), job);
  const copied = 2 * ranks * job.bytes;
  const moved = { reduceScatter: (ranks + 1) * job.bytes, allGather: 2 * (ranks - 1) * job.bytes };
  return (["reduceScatter", "allGather"] as const).map((name) => ({
    name: `${name}, ${ranks} ranks, ${job.bytes / 2 ** 20} MiB`,
    tensorGBs: job.bytes / 1e9 / median(samples!.map((s) => s[name])),
    share: median(samples!.map((s) => moved[name] / s[name] / (copied / s.copy))),
  }));
}
