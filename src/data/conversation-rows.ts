/** Conversations and completions as rows: one sample a row, padded at its end, of which only the answers' tokens are targets. */

import { DataError, InternalError } from "../errors/errors.ts";
import type { Rows } from "./rows.ts";
import { isLearned, SampleFile, type SampleRange, type SampleRecord, tokenOf } from "./sample-file.ts";

export interface ConversationOptions {
  readonly vocabularySize: number;
  readonly seqLength: number;
}

/** Places are samples, of one range after the other. Attention looks back alone, so what pads a row's end changes nothing before it. */
export class ConversationRows implements Rows {
  readonly rowName = "conversation";
  readonly seqLength: number;
  readonly targetsOfEach = undefined;
  readonly tokens: number;
  readonly #files: readonly SampleFile[];
  readonly #vocabularySize: number;

  private constructor(files: readonly SampleFile[], tokens: number, options: ConversationOptions) {
    this.#files = files;
    this.tokens = tokens;
    this.seqLength = options.seqLength;
    this.#vocabularySize = options.vocabularySize;
  }

  /** @param tokens in all of them @throws DataError */
  static async open(
    ranges: readonly SampleRange[],
    tokens: number,
    options: ConversationOptions,
  ): Promise<ConversationRows> {
    const files: SampleFile[] = [];
    try {
      for (const range of ranges) files.push(await SampleFile.open(range));
    } catch (error) {
      await Promise.all(files.map((file) => file.close()));
      throw error;
    }
    return new ConversationRows(files, tokens, options);
  }

  async read(place: number, inputs: Int32Array, targets: Int32Array): Promise<void> {
    const { file, record } = await this.#find(place);
    const words = await file.words(this.#checkLength(place, record));
    inputs.fill(0);
    targets.fill(-1);
    let count = 0;
    for (const [i, word] of words.entries()) {
      const token = this.#checkToken(place, tokenOf(word));
      if (i + 1 < words.length) inputs[i] = token;
      if (i === 0 || !isLearned(word)) continue;
      targets[i - 1] = token;
      count++;
    }
    if (count !== record.targets) throw this.#changed(place, `${count} targets; wanted ${record.targets}`);
  }

  async countTargets(places: readonly number[]): Promise<number> {
    const found = await Promise.all(places.map((place) => this.#find(place)));
    return found.reduce((sum, { record }) => sum + record.targets, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#files.map((file) => file.close()));
  }

  async #find(place: number): Promise<{ file: SampleFile; record: SampleRecord }> {
    let sample = place;
    for (const file of this.#files) {
      if (sample < file.count) return { file, record: await file.record(sample) };
      sample -= file.count;
    }
    throw new InternalError(`sample ${place} was asked for, beyond the last one`);
  }

  #checkLength(place: number, record: SampleRecord): SampleRecord {
    if (record.length >= 2 && record.length <= this.seqLength + 1) return record;
    throw this.#changed(place, `${record.length} tokens; wanted 2 to ${this.seqLength + 1}`);
  }

  #checkToken(place: number, token: number): number {
    if (token < this.#vocabularySize) return token;
    throw this.#changed(place, `token id ${token}; wanted ids below ${this.#vocabularySize}`);
  }

  #changed(place: number, found: string): DataError {
    return new DataError(
      `the cache of the data is not as it was: sample ${place} has ${found}; remove it and start again`,
    );
  }
}
