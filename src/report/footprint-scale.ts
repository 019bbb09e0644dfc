/** Where things of a footprint stand: the axis, and labels that do not cover each other. */
import type { FootprintPicture } from "./footprint.ts";
import { formatBytes } from "./numbers.ts";

export interface Axis {
  /** Bytes at its upper end. */
  readonly topBytes: number;
  readonly ticks: readonly { readonly bytes: number; readonly label: string }[];
  /** The card's memory is so far above the bars that they would not be seen beside it: it is named, not drawn. */
  readonly isCardAbove: boolean;
}

/** A card of more than so many times the tallest bar is not drawn to scale. */
const mostCardPerBar = 3;

/** Room above the tallest thing, as a share of it. */
const headroom = 1.06;

export function axisOf({ usableBytes, stages }: FootprintPicture): Axis {
  const tallest = Math.max(1, ...stages.map(({ totalBytes }) => totalBytes));
  const isCardAbove = usableBytes > mostCardPerBar * tallest;
  const topBytes = headroom * (isCardAbove ? tallest : Math.max(tallest, usableBytes));
  const step = tickStep(topBytes);
  const count = Math.floor(topBytes / step);
  const ticks = Array.from({ length: count + 1 }, (_, i) => ({ bytes: i * step, label: tickLabel(i * step) }));
  return { topBytes, ticks, isCardAbove };
}

/** 1, 2 or 5 times a power of ten, so that there are four to nine ticks. */
function tickStep(topBytes: number): number {
  const rough = topBytes / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
}

/** "20 GB" for 20.0 GB. */
const tickLabel = (bytes: number): string =>
  bytes === 0
    ? "0"
    : formatBytes(bytes)
        .replace(/(\.\d*?)0+ /, "$1 ")
        .replace(". ", " ");

/**
 * Moves labels apart as little as needed. Their order stays.
 * @param wanted centres, in any order
 * @param gap least distance of two centres
 * @returns centres within the bounds, in the order of `wanted`; closer than the gap only if the bounds leave no room
 */
export function spread(
  wanted: readonly number[],
  gap: number,
  bounds: { readonly low: number; readonly high: number },
): number[] {
  const { low, high } = bounds;
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a]! - wanted[b]!);
  const space = order.length > 1 ? Math.min(gap, (high - low) / (order.length - 1)) : gap;
  const placed = order.map((i) => Math.min(high, Math.max(low, wanted[i]!)));
  for (let i = 1; i < placed.length; i++) placed[i] = Math.max(placed[i]!, placed[i - 1]! + space);
  for (let i = placed.length - 1; i >= 0; i--)
    placed[i] = Math.min(placed[i]!, i === placed.length - 1 ? high : placed[i + 1]! - space);
  const result = new Array<number>(wanted.length);
  order.forEach((original, i) => {
    result[original] = placed[i]!;
  });
  return result;
}
