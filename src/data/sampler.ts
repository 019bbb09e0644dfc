/** Which row of the data is which sample of the training run. */

import { DataError, InternalError } from "../errors/errors.ts";
import { Permutation } from "./permutation.ts";

export interface Sampler {
  /** Rows in one epoch. */
  readonly windowCount: number;
  /** Where the row of a sample of the run is. Samples are numbered from 0 through all ranks. */
  place(sample: number): number;
}

/** The rows of some data: row i is at place i * stride. */
export interface RowPlaces {
  readonly count: number;
  readonly stride: number;
  /** All places: what lies behind these data begins so much further on. */
  readonly places: number;
}

/**
 * Windows of a sequence of tokens, whose places are tokens: window i is tokens [i*T, i*T + T], so neighbours share one token: the last
 * target of one is the first input of the next.
 * @param seqLength T: tokens that the model sees in one window; the window holds one more, for the last target
 * @param name for messages @throws DataError where the tokens do not fill one window
 */
export function windowPlaces(tokenCount: number, seqLength: number, name = "the data"): RowPlaces {
  if (!Number.isSafeInteger(seqLength) || seqLength < 1) throw new InternalError(`a window of ${seqLength} tokens`);
  const count = Math.max(0, Math.floor((tokenCount - 1) / seqLength));
  if (count === 0) {
    throw new DataError(
      `${name} has ${tokenCount} tokens; wanted at least ${seqLength + 1}, one window of ${seqLength} and its last target: ` +
        `give more data, or a --seq-length of at most ${Math.max(1, tokenCount - 1)}`,
    );
  }
  return { count, stride: seqLength, places: tokenCount };
}

/** Samples, whose places are their numbers. @throws DataError where there is none */
export function samplePlaces(count: number, name = "the data"): RowPlaces {
  if (count === 0)
    throw new DataError(`${name} has no conversation left to train on: give more data, or hold out less`);
  return { count, stride: 1, places: count };
}

export interface SamplerOptions {
  readonly seed: number;
  readonly shuffle: boolean;
}

/** Samples are numbered through the whole run; each epoch holds every row once, in a new order when shuffled. */
export class RowSampler implements Sampler {
  readonly windowCount: number;
  readonly #stride: number;
  readonly #seed: number;
  readonly #shuffle: boolean;
  #permutation: { readonly epoch: number; readonly order: Permutation } | undefined;

  constructor({ count, stride }: Pick<RowPlaces, "count" | "stride">, { seed, shuffle }: SamplerOptions) {
    if (!Number.isSafeInteger(seed) || seed < 0)
      throw new InternalError(`seed ${seed} is not a whole number from 0 on`);
    this.windowCount = count;
    this.#stride = stride;
    this.#seed = seed;
    this.#shuffle = shuffle;
  }

  /** The row that is global sample `sample` (from 0). After the last row of an epoch the next epoch begins. */
  window(sample: number): number {
    const epoch = Math.floor(sample / this.windowCount);
    const position = sample % this.windowCount;
    if (!this.#shuffle) return position;
    if (this.#permutation?.epoch !== epoch) {
      this.#permutation = { epoch, order: new Permutation(this.windowCount, this.#seed, epoch) };
    }
    return this.#permutation.order.at(position);
  }

  place(sample: number): number {
    return this.window(sample) * this.#stride;
  }
}
