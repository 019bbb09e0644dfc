/** Where the rows of some data are: windows of tokens, or samples. */

import { DataError, InternalError } from "../errors/errors.ts";
import type { PreparedSource } from "./prepare.ts";

/** Row i is at place i * stride. */
export interface RowPlaces {
  readonly count: number;
  readonly stride: number;
  /** All places: what lies behind these data begins so much further on. */
  readonly places: number;
}

/** How messages speak of the data, and what to do where there is no row of them. */
export interface DataWords {
  readonly name: string;
  readonly advice: string;
}

/** Of what is trained on. */
export const trainingWords = (name = "the data"): DataWords => ({ name, advice: "give more data, or hold out less" });

/** Of sources that follow each other, which are all of one kind. @throws DataError where there is no row */
export function placesOf(
  sources: readonly Pick<PreparedSource, "samples" | "tokens">[],
  seqLength: number,
  words: DataWords,
): RowPlaces {
  const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);
  const samples = sources.flatMap((source) => source.samples ?? []);
  if (samples.length > 0) return samplePlaces(sum(samples.map(({ count }) => count)), words);
  return windowPlaces(sum(sources.map(({ tokens }) => tokens)), seqLength, words);
}

/**
 * Windows of a sequence of tokens, whose places are tokens: window i is tokens [i*T, i*T + T], so neighbours share one token: the last
 * target of one is the first input of the next.
 * @param seqLength T: tokens that the model sees in one window; the window holds one more, for the last target
 * @throws DataError where the tokens do not fill one window
 */
export function windowPlaces(tokenCount: number, seqLength: number, words = trainingWords()): RowPlaces {
  if (!Number.isSafeInteger(seqLength) || seqLength < 1) throw new InternalError(`a window of ${seqLength} tokens`);
  const count = Math.max(0, Math.floor((tokenCount - 1) / seqLength));
  if (count === 0)
    throw new DataError(
      `${words.name} has ${tokenCount} tokens; wanted at least ${seqLength + 1}, one window of ${seqLength} and its last target: ` +
        `${words.advice}, or give a --seq-length of at most ${Math.max(1, tokenCount - 1)}`,
    );
  return { count, stride: seqLength, places: tokenCount };
}

/** Samples, whose places are their numbers. @throws DataError where there is none */
export function samplePlaces(count: number, { name, advice } = trainingWords()): RowPlaces {
  if (count === 0) throw new DataError(`${name} has no conversation; wanted at least one: ${advice}`);
  return { count, stride: 1, places: count };
}
