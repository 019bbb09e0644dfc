/** The rows that a model is trained on, read by place: windows of tokens, or conversations (conversation-rows.ts). */

import type { TokenSource } from "./tokens.ts";

export interface Rows extends AsyncDisposable {
  /** What a row is, for people. */
  readonly rowName: "window" | "conversation";
  /** T: inputs, and as many targets, of a row. */
  readonly seqLength: number;
  /** Tokens in all data together. */
  readonly tokens: number;
  /** Targets that count in each row, where all have equally many. */
  readonly targetsOfEach: number | undefined;
  /**
   * Fills [seqLength] inputs and targets; a negative target does not count. @param place as a sampler gives it
   * @throws DataError where a file cannot be read, or has changed
   */
  read(place: number, inputs: Int32Array, targets: Int32Array): Promise<void>;
  /** Targets that count in the rows at these places together. */
  countTargets(places: readonly number[]): Promise<number>;
}

/** Windows of one sequence of tokens: the targets are the inputs shifted by one, and all count. */
export class WindowRows implements Rows {
  readonly rowName = "window";
  readonly seqLength: number;
  readonly targetsOfEach: number;
  readonly #source: TokenSource;

  constructor(source: TokenSource, seqLength: number) {
    this.#source = source;
    this.seqLength = seqLength;
    this.targetsOfEach = seqLength;
  }

  get tokens(): number {
    return this.#source.count;
  }

  async read(place: number, inputs: Int32Array, targets: Int32Array): Promise<void> {
    const tokens = await this.#source.read(place, this.seqLength + 1);
    inputs.set(tokens.subarray(0, this.seqLength));
    targets.set(tokens.subarray(1));
  }

  async countTargets(places: readonly number[]): Promise<number> {
    return places.length * this.seqLength;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#source.close();
  }
}
