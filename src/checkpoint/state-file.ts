/** A rank's file of a checkpoint, whose bytes are compared with the checksums of their blocks whenever they are read. */
import { join } from "node:path";
import { diskAlignmentBytes } from "../device/swap.ts";
import { CheckpointError, InternalError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { blocksHex } from "./checksum.ts";
import { type ChunkFile, type ChunkReader, usualChunkBytes } from "./chunk-reader.ts";
import { crc32 } from "./crc32.ts";
import { fileProblem } from "./file-problem.ts";
import { openSafetensors } from "./safetensors.ts";
import type { TensorEntry } from "./safetensors-header.ts";
import type { SavedFile } from "./training-manifest.ts";

const floatBytes = 4;

/** Whether blocks have checksums, and chunks can be made of whole blocks. */
export const hasCheckedBlocks = ({ blockBytes, blocks }: SavedFile): boolean =>
  blocks !== undefined && blockBytes !== undefined && blockBytes >= diskAlignmentBytes && isPowerOfTwo(blockBytes);

const isPowerOfTwo = (value: number): boolean => Number.isInteger(Math.log2(value));

/** So that every chunk of every file is made of whole blocks. */
export const chunkBytesOf = (files: readonly SavedFile[]): number =>
  Math.max(usualChunkBytes, ...files.filter(hasCheckedBlocks).map(({ blockBytes }) => blockBytes!));

export class StateFile {
  readonly path: string;
  readonly entries: ReadonlyMap<string, TensorEntry>;
  readonly #folder: string;
  readonly #saved: SavedFile;
  readonly #reader: ChunkReader;
  readonly #file: ChunkFile;
  readonly #dataStart: number;

  private constructor(folder: string, saved: SavedFile, reader: ChunkReader, file: ChunkFile, header: Header) {
    this.path = join(folder, saved.name);
    this.entries = header.tensors;
    this.#folder = folder;
    this.#saved = saved;
    this.#reader = reader;
    this.#file = file;
    this.#dataStart = header.dataStart;
  }

  /** @param reader reads it, and closes it at its own end @throws ModelError, CheckpointError where its header is damaged */
  static async open(folder: string, saved: SavedFile, reader: ChunkReader): Promise<StateFile> {
    const path = join(folder, saved.name);
    await using header = await openSafetensors(path);
    const file = await reader.open(path, saved.bytes, hasCheckedBlocks(saved) ? checkOf(saved) : undefined);
    const opened = new StateFile(folder, saved, reader, file, header);
    await opened.#read(0, header.dataStart, () => {});
    return opened;
  }

  /** Fills `into` from element `first` of an entry on. @throws CheckpointError that names what is damaged */
  async read(entry: string, first: number, into: Float32Array): Promise<void> {
    const { begin, elements } = this.entries.get(entry)!;
    if (first < 0 || first + into.length > elements)
      throw new InternalError(`elements ${first} to ${first + into.length} of ${entry} with ${elements}`);
    const start = this.#dataStart + begin + first * floatBytes;
    const bytes = new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
    await this.#read(start, start + bytes.length, (part, at) => bytes.set(part, at - start));
  }

  async #read(first: number, end: number, take: (part: Uint8Array, at: number) => void): Promise<void> {
    try {
      await this.#reader.read(this.#file, first, end, take);
    } catch (error) {
      const problem = await fileProblem(this.#folder, this.#saved);
      throw new CheckpointError(problem ?? `${this.path} cannot be read: ${reasonOf(error)}`, {
        cause: error,
      });
    }
  }
}

interface Header {
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  readonly dataStart: number;
}

/** Compares chunks, block by block. */
function checkOf({ blockBytes, blocks }: SavedFile): (chunk: Uint8Array, begin: number) => void {
  return (chunk, begin) => {
    for (let done = 0; done < chunk.length; done += blockBytes!) {
      const digit = 8 * ((begin + done) / blockBytes!);
      const [found, wanted] = [
        blocksHex([crc32(chunk.subarray(done, done + blockBytes!))]),
        blocks!.slice(digit, digit + 8),
      ];
      if (found !== wanted) throw new Error(`bytes from ${begin + done} on have checksum ${found}; wanted ${wanted}`);
    }
  };
}
