/** Ranks that say the same thing are shown once: of 64 equal tables nobody reads the 64th. */

export interface RankGroup<T> {
  /** "rank 0", "ranks 0-3, each", "ranks 0, 2-3, each". */
  readonly title: string;
  readonly value: T;
}

/** Groups values, given in rank order, by what they hold. */
export function groupRanks<T>(values: readonly T[]): RankGroup<T>[] {
  const groups = new Map<string, { value: T; ranks: number[] }>();
  values.forEach((value, rank) => {
    const key = JSON.stringify(value);
    const group = groups.get(key);
    if (group) group.ranks.push(rank);
    else groups.set(key, { value, ranks: [rank] });
  });
  return [...groups.values()].map(({ value, ranks }) => ({ title: rankTitle(ranks), value }));
}

function rankTitle(ranks: readonly number[]): string {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const spans: [number, number][] = [];
  for (const rank of ranks) {
    const last = spans.at(-1);
    if (last && last[1] === rank - 1) last[1] = rank;
    else spans.push([rank, rank]);
  }
  return `ranks ${spans.map(([a, b]) => (a === b ? `${a}` : `${a}-${b}`)).join(", ")}, each`;
}
