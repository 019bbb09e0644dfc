/** CRC-32 (as in gzip and PNG): finds damage by disks and copies, at several GB/s. It is no protection against forgery. */
import { stat } from "node:fs/promises";
import { ChunkReader } from "./chunk-reader.ts";
import { crc32, crc32Joined, crc32Shift } from "./crc32.ts";

const hexOf = (value: number): string => value.toString(16).padStart(8, "0");

const leastBlockBytes = 1024 * 1024;
/** So that a file's list stays small. */
const mostBlocks = 4096;

/** 1 MiB, and of large files so much that there are at most 4096 blocks. */
export function blockBytesOf(fileBytes: number): number {
  let blockBytes = leastBlockBytes;
  while (fileBytes / blockBytes > mostBlocks) blockBytes *= 2;
  return blockBytes;
}

/**
 * The checksum of bytes that come in pieces, and of each block of them, so that damage can be placed. Every block but the last has
 * `blockBytes`. Bytes are gone through once: the whole's checksum is made of the blocks'.
 */
export class Checksum {
  readonly blockBytes: number;
  bytes = 0;
  readonly #values: number[] = [];
  /** Of the blocks that have ended. */
  #whole = 0;
  readonly #shift: number;
  #value = 0;
  #taken = 0;

  constructor(blockBytes = leastBlockBytes) {
    this.blockBytes = blockBytes;
    this.#shift = crc32Shift(blockBytes);
  }

  add(piece: Uint8Array): void {
    this.bytes += piece.length;
    for (let done = 0; done < piece.length; ) {
      const part = piece.subarray(done, done + this.blockBytes - this.#taken);
      this.#value = crc32(part, this.#value);
      this.#taken += part.length;
      done += part.length;
      if (this.#taken === this.blockBytes) this.#end();
    }
  }

  /** Of all bytes. */
  get value(): number {
    return this.#taken > 0 ? crc32Joined(this.#whole, this.#value, crc32Shift(this.#taken)) : this.#whole;
  }

  get hex(): string {
    return hexOf(this.value);
  }

  /** Of each block, in order; the last block ends with what was added last. */
  get blocks(): readonly number[] {
    return this.#taken > 0 ? [...this.#values, this.#value] : this.#values;
  }

  #end(): void {
    this.#values.push(this.#value);
    this.#whole = crc32Joined(this.#whole, this.#value, this.#shift);
    this.#value = 0;
    this.#taken = 0;
  }
}

/** Eight hexadecimal digits a block. */
export const blocksHex = (values: readonly number[]): string => values.map(hexOf).join("");

/** The checksum of a file, read from beginning to end. @param blockBytes of the blocks that get checksums of their own */
export async function checksumOf(path: string, blockBytes?: number): Promise<Checksum> {
  const sum = new Checksum(blockBytes);
  const { size } = await stat(path);
  await using reader = new ChunkReader();
  await reader.read(await reader.open(path, size), 0, size, (part) => sum.add(part));
  return sum;
}
