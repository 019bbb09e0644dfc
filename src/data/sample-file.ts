/**
 * Samples of instruction data in the cache: a file of 32-bit words, each a token with a bit that says whether it is learned, and an
 * index with one record for each sample, so that any sample, and how many targets it has, is found without reading the others.
 */

import { type FileHandle, open } from "node:fs/promises";
import { DataError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";

/** Samples of a file that was made before: plain data, which ranks are told. */
export interface SampleRange {
  /** Of the words. */
  readonly path: string;
  /** Of the records. */
  readonly index: string;
  readonly first: number;
  readonly count: number;
}

/** Where a sample is and what it holds. */
export interface SampleRecord {
  /** Its first word in the file. */
  readonly start: number;
  /** Words: its inputs and one more. */
  readonly length: number;
  /** That count. */
  readonly targets: number;
}

/** As it stands in the index: start (its low and its high half), length, targets. */
export const recordWords = ({ start, length, targets }: SampleRecord): readonly number[] => [
  start % 2 ** 32,
  Math.floor(start / 2 ** 32),
  length,
  targets,
];
const wordBytes = 4;
export const recordBytes = 4 * wordBytes;
/** Records that are read at once by who reads all. */
const recordsAtOnce = 1 << 16;

export class SampleFile {
  readonly count: number;
  readonly #range: SampleRange;
  readonly #words: FileHandle;
  readonly #index: FileHandle;

  private constructor(range: SampleRange, words: FileHandle, index: FileHandle) {
    this.count = range.count;
    this.#range = range;
    this.#words = words;
    this.#index = index;
  }

  /** @throws DataError */
  static async open(range: SampleRange): Promise<SampleFile> {
    const words = await openFile(range.path);
    try {
      return new SampleFile(range, words, await openFile(range.index));
    } catch (error) {
      await words.close();
      throw error;
    }
  }

  /** @param sample from 0, in this range */
  async record(sample: number): Promise<SampleRecord> {
    const [record] = await this.#records(sample, 1);
    return record!;
  }

  /** All records in order, in constant memory. */
  async *records(): AsyncGenerator<SampleRecord> {
    for (let at = 0; at < this.count; at += recordsAtOnce)
      yield* await this.#records(at, Math.min(recordsAtOnce, this.count - at));
  }

  /** Its words. */
  async words({ start, length }: SampleRecord): Promise<Uint32Array> {
    return new Uint32Array(await readRange(this.#words, this.#range.path, start * wordBytes, length * wordBytes));
  }

  async close(): Promise<void> {
    await Promise.all([this.#words.close(), this.#index.close()]);
  }

  async #records(first: number, count: number): Promise<SampleRecord[]> {
    const { index, first: begin } = this.#range;
    const bytes = await readRange(this.#index, index, (begin + first) * recordBytes, count * recordBytes);
    const words = new Uint32Array(bytes);
    return Array.from({ length: count }, (_, i) => {
      const [low, high, length, targets] = words.subarray(4 * i, 4 * i + 4);
      return { start: low! + high! * 2 ** 32, length: length!, targets: targets! };
    });
  }
}

/** Beyond any id. */
export const learnedBit = 2 ** 31;

/** What a word of a sample says. */
export const tokenOf = (word: number): number => word % learnedBit;
export const isLearned = (word: number): boolean => word >= learnedBit;

function openFile(path: string): Promise<FileHandle> {
  return open(path, "r").catch((error: Error) => {
    throw new DataError(`${path} cannot be opened: ${reasonOf(error)}`, { cause: error });
  });
}

async function readRange(handle: FileHandle, path: string, position: number, length: number): Promise<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let done = 0; done < length; ) {
    const { bytesRead } = await handle.read(bytes, done, length - done, position + done).catch((error: Error) => {
      throw new DataError(`${path} cannot be read at byte ${position + done}: ${reasonOf(error)}`, { cause: error });
    });
    if (bytesRead === 0)
      throw new DataError(
        `${path} ends at byte ${position + done}, though it was longer; remove it to have it made anew`,
      );
    done += bytesRead;
  }
  return bytes.buffer;
}
