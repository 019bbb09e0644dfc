/** Which window of the data is which sample of the training run. */

import { DataError, InternalError } from "../errors/errors.ts";
import { Permutation } from "./permutation.ts";

export interface Sampler {
  readonly seqLength: number;
  /** Windows in one epoch. */
  readonly windowCount: number;
  /** Where the window of a sample of the run begins. Samples are numbered from 0 through all ranks. */
  firstToken(sample: number): number;
}

export interface SamplerOptions {
  /** Tokens in the data. */
  readonly tokenCount: number;
  /** T: tokens that the model sees in one window; the window holds one more, for the last target. */
  readonly seqLength: number;
  readonly seed: number;
  readonly shuffle: boolean;
  /** For messages. Undefined: "the data". */
  readonly name?: string;
}

/**
 * Window i is tokens [i*T, i*T + T], so neighbours share one token: the last target of one is the first input of the next.
 * Samples are numbered through the whole run; each epoch holds every window once, in a new order when shuffled.
 */
export class WindowSampler implements Sampler {
  readonly seqLength: number;
  /** Whole windows in the data: samples in one epoch. */
  readonly windowCount: number;
  readonly #seed: number;
  readonly #shuffle: boolean;
  #permutation: { readonly epoch: number; readonly order: Permutation } | undefined;

  /** Throws DataError where the data does not fill one window. */
  constructor(options: SamplerOptions) {
    const { tokenCount, seqLength, seed, shuffle, name = "the data" } = options;
    if (!Number.isSafeInteger(seqLength) || seqLength < 1) throw new InternalError(`a window of ${seqLength} tokens`);
    if (!Number.isSafeInteger(seed) || seed < 0)
      throw new InternalError(`seed ${seed} is not a whole number from 0 on`);
    this.seqLength = seqLength;
    this.windowCount = Math.max(0, Math.floor((tokenCount - 1) / seqLength));
    if (this.windowCount === 0) {
      throw new DataError(
        `${name} has ${tokenCount} tokens; wanted at least ${seqLength + 1}, one window of ${seqLength} and its last target: ` +
          `give more data, or a --seq-length of at most ${Math.max(1, tokenCount - 1)}`,
      );
    }
    this.#seed = seed;
    this.#shuffle = shuffle;
  }

  /** The window that is global sample `sample` (from 0). After the last window of an epoch the next epoch begins. */
  window(sample: number): number {
    const epoch = Math.floor(sample / this.windowCount);
    const position = sample % this.windowCount;
    if (!this.#shuffle) return position;
    if (this.#permutation?.epoch !== epoch) {
      this.#permutation = { epoch, order: new Permutation(this.windowCount, this.#seed, epoch) };
    }
    return this.#permutation.order.at(position);
  }

  firstToken(sample: number): number {
    return this.window(sample) * this.seqLength;
  }
}
