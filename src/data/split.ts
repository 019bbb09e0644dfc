/** A part of the data held out for validation: the end of each source, as ranges of the same files or samples. */

import type { PreparedSource } from "./prepare.ts";
import type { SampleRange } from "./sample-file.ts";
import type { TokenRange } from "./token-file.ts";

export interface Split {
  readonly training: readonly PreparedSource[];
  readonly validation: readonly PreparedSource[];
}

/**
 * The last tokens, or the last conversations, of each source, rounded down to whole ones. Ends, and not windows drawn from everywhere: a window in the middle of
 * what is trained on would be known from both sides. @param share of each source, above 0 and below 1
 */
export function splitOff(sources: readonly PreparedSource[], share: number): Split {
  const parts = sources.map((source) => {
    if (source.samples) return splitSamples(source, source.samples, share);
    const held = Math.floor(source.tokens * share);
    const kept = source.tokens - held;
    const [first, last] = [cut(source.ranges, 0, kept), cut(source.ranges, kept, source.tokens)];
    return [
      { ...source, ranges: first, tokens: kept },
      { ...source, ranges: last, tokens: held },
    ] as const;
  });
  return { training: parts.map(([first]) => first), validation: parts.map(([, last]) => last) };
}

function splitSamples(source: PreparedSource, samples: SampleRange, share: number) {
  const held = Math.floor(samples.count * share);
  const kept = samples.count - held;
  return [
    { ...source, samples: { ...samples, count: kept } },
    { ...source, samples: { ...samples, first: samples.first + kept, count: held } },
  ] as const;
}

/** Tokens [from, to) of the ranges one after the other. */
function cut(ranges: readonly TokenRange[], from: number, to: number): TokenRange[] {
  const parts: TokenRange[] = [];
  let start = 0;
  for (const range of ranges) {
    const [first, end] = [Math.max(from, start) - start, Math.min(to, start + range.count) - start];
    if (first < end)
      parts.push({ ...range, startByte: range.startByte + first * range.tokenBytes, count: end - first });
    start += range.count;
  }
  return parts;
}
