/** Which row of the data is which sample of the training run. */

import { InternalError } from "../errors/errors.ts";
import { Permutation } from "./permutation.ts";
import type { RowPlaces } from "./row-places.ts";

export interface Sampler {
  /** In one epoch. */
  readonly rowCount: number;
  /** Where the row of a sample of the run is. Samples are numbered from 0 through all ranks. */
  place(sample: number): number;
}

export interface SamplerOptions {
  readonly seed: number;
  readonly shuffle: boolean;
}

/** Samples are numbered through the whole run; each epoch holds every row once, in a new order when shuffled. */
export class RowSampler implements Sampler {
  readonly rowCount: number;
  readonly #stride: number;
  readonly #seed: number;
  readonly #shuffle: boolean;
  #permutation: { readonly epoch: number; readonly order: Permutation } | undefined;

  constructor({ count, stride }: Pick<RowPlaces, "count" | "stride">, { seed, shuffle }: SamplerOptions) {
    if (!Number.isSafeInteger(seed) || seed < 0)
      throw new InternalError(`seed ${seed} is not a whole number from 0 on`);
    this.rowCount = count;
    this.#stride = stride;
    this.#seed = seed;
    this.#shuffle = shuffle;
  }

  /** The row that is global sample `sample` (from 0). After the last row of an epoch the next epoch begins. */
  window(sample: number): number {
    const epoch = Math.floor(sample / this.rowCount);
    const position = sample % this.rowCount;
    if (!this.#shuffle) return position;
    if (this.#permutation?.epoch !== epoch) {
      this.#permutation = { epoch, order: new Permutation(this.rowCount, this.#seed, epoch) };
    }
    return this.#permutation.order.at(position);
  }

  place(sample: number): number {
    return this.window(sample) * this.#stride;
  }
}
