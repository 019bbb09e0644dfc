/** The batches of one rank, read one ahead. */

import type { Sampler } from "./sampler.ts";
import type { TokenSource } from "./tokens.ts";

export interface Batch {
  /** [microBatch * seqLength] token ids, window after window. */
  readonly inputs: Int32Array;
  /** [microBatch * seqLength]: the token after each input. */
  readonly targets: Int32Array;
  /** Number of the first window's sample in the run; the others follow it. Keys dropout. */
  readonly firstSample: number;
}

export interface LoaderOptions {
  readonly source: TokenSource;
  readonly sampler: Sampler;
  /** m: windows in one micro-batch of one rank. */
  readonly microBatch: number;
  /** g: micro-batches in one step. */
  readonly gradientAccumulation: number;
  readonly worldSize: number;
  readonly rank: number;
}

/**
 * Micro-batch a of step k takes samples k*B + a*N*m to k*B + (a+1)*N*m - 1 of the run, where B = g*N*m; rank r has the r-th m of
 * them. While the caller trains on one batch the next one is read.
 */
export class DataLoader {
  readonly #options: LoaderOptions;
  #ahead: { readonly firstSample: number; readonly batch: Promise<Batch> } | undefined;

  constructor(options: LoaderOptions) {
    this.#options = options;
  }

  /** Batch for `microBatch` (from 0) of `step` (from 0). Throws DataError where a file cannot be read. */
  async batch(step: number, microBatch: number): Promise<Batch> {
    const firstSample = this.#firstSample(step, microBatch);
    const current = this.#ahead?.firstSample === firstSample ? this.#ahead.batch : this.#read(firstSample);
    this.#ahead = undefined;
    const batch = await current;
    const lastOfStep = microBatch + 1 === this.#options.gradientAccumulation;
    this.#startAhead(lastOfStep ? this.#firstSample(step + 1, 0) : this.#firstSample(step, microBatch + 1));
    return batch;
  }

  /** Waits until nothing is being read, so that the source can be closed. */
  async idle(): Promise<void> {
    await this.#ahead?.batch.catch(() => undefined);
    this.#ahead = undefined;
  }

  #firstSample(step: number, microBatch: number): number {
    const { gradientAccumulation, worldSize, microBatch: windows, rank } = this.#options;
    return ((step * gradientAccumulation + microBatch) * worldSize + rank) * windows;
  }

  #startAhead(firstSample: number): void {
    const batch = this.#read(firstSample);
    // Its error belongs to whoever asks for that batch; until then it must not end the process.
    batch.catch(() => undefined);
    this.#ahead = { firstSample, batch };
  }

  async #read(firstSample: number): Promise<Batch> {
    const { source, sampler, microBatch } = this.#options;
    const length = sampler.seqLength;
    const inputs = new Int32Array(microBatch * length);
    const targets = new Int32Array(microBatch * length);
    const windows = Array.from({ length: microBatch }, async (_, i) => {
      const first = sampler.firstToken(firstSample + i);
      const tokens = await source.read(first, length + 1);
      inputs.set(tokens.subarray(0, length), i * length);
      targets.set(tokens.subarray(1), i * length);
    });
    await Promise.all(windows);
    return { inputs, targets, firstSample };
  }
}
