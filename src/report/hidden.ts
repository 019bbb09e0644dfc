/** How much of every transfer and of the update was hidden behind compute (docs/trace.md says how it is measured). */
import { type OverlappedQueue, type OverlapTimes, overlappedQueues, type QueueOverlap } from "../device/overlap.ts";
import type { RankReport } from "../zero/record.ts";

/** `share`: 1 - waitedSeconds / seconds; null where nothing ran. */
export type HiddenRecord = Readonly<Record<OverlappedQueue, QueueOverlap & { readonly share: number | null }>>;

const words: Readonly<Record<OverlappedQueue, string>> = {
  collective: "collectives",
  down: "copy down",
  up: "copy up",
  update: "update",
  diskRead: "disk read",
  diskWrite: "disk write",
};

const shareOf = ({ seconds, waitedSeconds }: QueueOverlap): number | null =>
  seconds > 0 ? 1 - waitedSeconds / seconds : null;

/** Undefined where nothing was measured. */
export function hiddenRecord(overlap: OverlapTimes): HiddenRecord | undefined {
  if (overlappedQueues.every((queue) => overlap[queue].seconds === 0)) return undefined;
  return Object.fromEntries(
    overlappedQueues.map((queue) => [queue, { ...overlap[queue], share: shareOf(overlap[queue]) }]),
  ) as HiddenRecord;
}

/** "Hidden behind compute: copy down 97 % of 1.2 s, update 88 % of 30.1 s." over steps and ranks; undefined where nothing was measured. */
export function renderHidden(
  steps: readonly { readonly ranks: readonly Pick<RankReport, "overlap">[] }[],
): string | undefined {
  const all = steps.flatMap(({ ranks }) => ranks.map((rank) => rank.overlap));
  const ranks = steps[0]?.ranks.length ?? 1;
  const parts = overlappedQueues.flatMap((queue) => {
    const sum = (field: keyof QueueOverlap): number => all.reduce((total, o) => total + o[queue][field], 0);
    const total = { seconds: sum("seconds"), waitedSeconds: sum("waitedSeconds") };
    const share = shareOf(total);
    if (share === null) return [];
    return [`${words[queue]} ${Math.floor(share * 100)} % of ${(total.seconds / ranks).toFixed(2)} s`];
  });
  return parts.length === 0 ? undefined : `Hidden behind compute, a rank: ${parts.join(", ")}.`;
}
