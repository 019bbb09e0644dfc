/** What is in conversations for a run: how much of it is learned, and how much of the rows is padding. */

import { SampleFile, type SampleRange } from "./sample-file.ts";

export interface ConversationSummary {
  readonly samples: number;
  /** In all samples, after cutting. */
  readonly tokens: number;
  /** That count as targets. */
  readonly targets: number;
  /** Share of all rows' positions. */
  readonly padded: number;
  /** A sequence length that leaves less padding for hardly any cut. */
  readonly shorter?: { readonly seqLength: number; readonly cut: number; readonly padded: number };
}

/** Of all samples so many may be cut by a shorter sequence length. */
const mostCut = 0.001;
/** A shorter one is not worth a word for less. */
const leastGain = 0.05;

/** Reads the index of all samples once, in memory that depends on the sequence length alone. @throws DataError */
export async function summarise(ranges: readonly SampleRange[], seqLength: number): Promise<ConversationSummary> {
  /** Samples by their inputs. */
  const counts = new Float64Array(seqLength + 1);
  let targets = 0;
  for (const range of ranges) {
    const file = await SampleFile.open(range);
    try {
      for await (const record of file.records()) {
        counts[Math.min(seqLength, record.length - 1)]! += 1;
        targets += record.targets;
      }
    } finally {
      await file.close();
    }
  }
  const samples = counts.reduce((a, b) => a + b, 0);
  const padded = paddedShare(counts, samples, seqLength);
  const whole = {
    samples,
    tokens: counts.reduce((sum, count, inputs) => sum + count * (inputs + 1), 0),
    targets,
    padded,
  };
  const shorter = shorterLength(counts, samples);
  if (shorter >= seqLength) return whole;
  const less = paddedShare(counts, samples, shorter);
  if (padded - less < leastGain) return whole;
  const cut = counts.subarray(shorter + 1).reduce((a, b) => a + b, 0);
  return { ...whole, shorter: { seqLength: shorter, cut, padded: less } };
}

function paddedShare(counts: Float64Array, samples: number, seqLength: number): number {
  const used = counts.reduce((sum, count, inputs) => sum + count * Math.min(inputs, seqLength), 0);
  return samples === 0 ? 0 : 1 - used / (samples * seqLength);
}

/** The shortest round one that cuts hardly any. */
function shorterLength(counts: Float64Array, samples: number): number {
  let cut = 0;
  let length = counts.length - 1;
  while (length > 1 && cut + counts[length]! <= mostCut * samples) cut += counts[length--]!;
  const step = length > 64 ? 64 : 8;
  return Math.ceil(length / step) * step;
}
