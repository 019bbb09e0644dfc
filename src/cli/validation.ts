/** The loss on data that are not trained on: every window that fits, the same ones each time, dealt to the ranks. */
import type { TokenSource } from "../data/tokens.ts";
import { DataError } from "../errors/errors.ts";
import type { LanguageBatch } from "../nn/models/gpt2.ts";
import type { Engine } from "../zero/engine.ts";

export interface ValidationRecord {
  /** Mean over all targets of all windows. */
  readonly loss: number;
  readonly windows: number;
  readonly seconds: number;
}

/** Held-out data, opened. */
export interface ValidationData {
  readonly tokens: TokenSource;
  /** Whole ones in it: window i is tokens i*T to i*T + T. */
  readonly windows: number;
  readonly seqLength: number;
}

/** @throws DataError where they do not fill one window */
export function validationData(tokens: TokenSource, seqLength: number): ValidationData {
  const windows = Math.max(0, Math.floor((tokens.count - 1) / seqLength));
  if (windows === 0)
    throw new DataError(
      `the validation data have ${tokens.count} tokens; wanted at least ${seqLength + 1}, one window of ${seqLength} and its last ` +
        "target: hold out a larger part with --validation, or name more with --validation-data",
    );
  return { tokens, windows, seqLength };
}

/**
 * Every rank calls it, between two steps. In each round rank r has the r-th m windows; in the last one some ranks have fewer, or
 * only one that they have to run and that does not count: nothing is left out and nothing counts twice. The sum is in rank order, so
 * it is the same at every stage.
 */
export async function validate(
  engine: Engine<LanguageBatch>,
  { tokens, windows, seqLength }: ValidationData,
  microBatch: number,
): Promise<ValidationRecord> {
  const begin = performance.now();
  const { rank, worldSize } = engine.group;
  let sum = 0;
  for (let round = 0; round * worldSize * microBatch < windows; round++) {
    const first = (round * worldSize + rank) * microBatch;
    const counted = Math.max(0, Math.min(microBatch, windows - first));
    const loss = await lossOf(engine, tokens, seqLength, counted > 0 ? first : 0, Math.max(1, counted));
    sum += counted * loss;
  }
  const sums = await engine.group.exchange(Float64Array.of(sum), "validation losses");
  const loss = sums.reduce((total, [part]) => total + part!, 0) / windows;
  return { loss, windows, seconds: (performance.now() - begin) / 1000 };
}

/** Mean loss of windows that follow each other. */
async function lossOf(
  engine: Engine<LanguageBatch>,
  tokens: TokenSource,
  seqLength: number,
  first: number,
  rows: number,
): Promise<number> {
  const read = await tokens.read(first * seqLength, rows * seqLength + 1);
  const shape = [rows, seqLength];
  return engine.evaluate({
    inputs: { data: read.slice(0, -1), shape },
    targets: { data: read.slice(1), shape },
  });
}
