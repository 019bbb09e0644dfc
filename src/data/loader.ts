/** The batches of one rank, read one ahead. */

import type { Rows } from "./rows.ts";
import type { Sampler } from "./sampler.ts";

export interface Batch {
  /** [microBatch * seqLength] token ids, row after row. */
  readonly inputs: Int32Array;
  /** [microBatch * seqLength]: the token after each input; negative where it does not count. */
  readonly targets: Int32Array;
  /** Targets that count in all micro-batches of all ranks of this step. */
  readonly stepTargets: number;
  /** Number of the first row's sample in the run; the others follow it. Keys dropout. */
  readonly firstSample: number;
}

export interface LoaderOptions {
  readonly rows: Rows;
  readonly sampler: Sampler;
  /** m: rows in one micro-batch of one rank. */
  readonly microBatch: number;
  /** g: micro-batches in one step. */
  readonly gradientAccumulation: number;
  readonly worldSize: number;
  readonly rank: number;
}

/**
 * Micro-batch a of step k takes samples k*B + a*N*m to k*B + (a+1)*N*m - 1 of the run, where B = g*N*m; rank r has the r-th m of
 * them. While the caller trains on one batch the next one is read. How many targets the whole step has each rank finds by itself.
 */
export class DataLoader {
  readonly #options: LoaderOptions;
  #ahead: { readonly firstSample: number; readonly batch: Promise<Batch> } | undefined;
  #counted: { readonly step: number; readonly targets: Promise<number> } | undefined;

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
    const { gradientAccumulation, worldSize, microBatch: rows, rank } = this.#options;
    return ((step * gradientAccumulation + microBatch) * worldSize + rank) * rows;
  }

  #startAhead(firstSample: number): void {
    const batch = this.#read(firstSample);
    // Its error belongs to whoever asks for that batch; until then it must not end the process.
    batch.catch(() => undefined);
    this.#ahead = { firstSample, batch };
  }

  async #read(firstSample: number): Promise<Batch> {
    const { rows, sampler, microBatch } = this.#options;
    const length = rows.seqLength;
    const inputs = new Int32Array(microBatch * length);
    const targets = new Int32Array(microBatch * length);
    const read = Array.from({ length: microBatch }, (_, i) => {
      const [from, end] = [i * length, (i + 1) * length];
      return rows.read(sampler.place(firstSample + i), inputs.subarray(from, end), targets.subarray(from, end));
    });
    const [stepTargets] = await Promise.all([this.#stepTargets(firstSample), ...read]);
    return { inputs, targets, stepTargets, firstSample };
  }

  /** Of the step with this sample. */
  #stepTargets(sample: number): Promise<number> {
    const { rows, sampler, microBatch, gradientAccumulation, worldSize } = this.#options;
    const batch = microBatch * gradientAccumulation * worldSize;
    if (rows.targetsOfEach !== undefined) return Promise.resolve(batch * rows.targetsOfEach);
    const step = Math.floor(sample / batch);
    if (this.#counted?.step !== step) {
      const places = Array.from({ length: batch }, (_, i) => sampler.place(step * batch + i));
      this.#counted = { step, targets: rows.countTargets(places) };
    }
    return this.#counted.targets;
  }
}
