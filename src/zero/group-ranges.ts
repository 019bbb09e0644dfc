/** A flat buffer cut at the borders of parameter groups. Padding goes with the tensor before it. */
import type { FlatLayout } from "../plan/layout.ts";
import type { Range } from "./elements.ts";

/** Elements of a flat buffer that are updated with the numbers of one group. */
export interface GroupRange extends Range {
  readonly group: number;
}

/** Covers the buffer; neighbours differ in their group. @param groupOf the group of a tensor's name */
export function groupRanges(flat: FlatLayout, groupOf: (name: string) => number): GroupRange[] {
  const borders: { start: number; group: number }[] = [];
  for (const { name, offset } of flat.pieces) {
    const group = groupOf(name);
    if (borders.at(-1)?.group !== group) borders.push({ start: offset, group });
  }
  return borders.map(({ start, group }, i) => ({ start, end: borders[i + 1]?.start ?? flat.paddedElements, group }));
}

/** What of `ranges` lies in [start, end). */
export function rangesWithin(ranges: readonly GroupRange[], start: number, end: number): GroupRange[] {
  return ranges
    .map((r) => ({ ...r, start: Math.max(r.start, start), end: Math.min(r.end, end) }))
    .filter((r) => r.start < r.end);
}
