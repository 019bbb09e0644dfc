/** CRC-32 (as in gzip and PNG): finds damage by disks and copies, at several GB/s. It is no protection against forgery. */
import { open } from "node:fs/promises";
import { crc32 } from "node:zlib";

const hexOf = (value: number): string => value.toString(16).padStart(8, "0");

export class Checksum {
  bytes = 0;
  #value = 0;

  add(piece: Uint8Array): void {
    this.#value = crc32(piece, this.#value);
    this.bytes += piece.length;
  }

  get hex(): string {
    return hexOf(this.#value);
  }
}

/** Checksums of a file's blocks, so that damage can be placed. Every block but the last has `blockBytes`. */
export class BlockChecksums {
  readonly blockBytes: number;
  readonly #values: number[] = [];
  #value = 0;
  #taken = 0;

  constructor(blockBytes: number) {
    this.blockBytes = blockBytes;
  }

  add(piece: Uint8Array): void {
    for (let done = 0; done < piece.length; ) {
      const part = piece.subarray(done, done + this.blockBytes - this.#taken);
      this.#value = crc32(part, this.#value);
      this.#taken += part.length;
      done += part.length;
      if (this.#taken === this.blockBytes) this.#end();
    }
  }

  /** In order; the last block ends with what was added last. */
  get values(): readonly number[] {
    return this.#taken > 0 ? [...this.#values, this.#value] : this.#values;
  }

  #end(): void {
    this.#values.push(this.#value);
    this.#value = 0;
    this.#taken = 0;
  }
}

/** Eight hexadecimal digits a block. */
export const blocksHex = (values: readonly number[]): string => values.map(hexOf).join("");

const leastBlockBytes = 1024 * 1024;
/** So that a file's list stays small. */
const mostBlocks = 4096;

/** 1 MiB, and of large files so much that there are at most 4096 blocks. */
export function blockBytesOf(fileBytes: number): number {
  let blockBytes = leastBlockBytes;
  while (fileBytes / blockBytes > mostBlocks) blockBytes *= 2;
  return blockBytes;
}

const readBytes = 8 * 1024 * 1024;

/**
 * The checksum of a file, read from beginning to end with the next piece being read while one is added.
 * @param blocks are given the same bytes
 */
export async function checksumOf(path: string, blocks?: BlockChecksums): Promise<Checksum> {
  const sum = new Checksum();
  const handle = await open(path, "r");
  try {
    const buffers = [new Uint8Array(readBytes), new Uint8Array(readBytes)] as const;
    const readInto = (buffer: Uint8Array) => handle.read(buffer, 0, readBytes);
    let reading = readInto(buffers[0]);
    for (let i = 0; ; i++) {
      const { bytesRead } = await reading;
      if (bytesRead === 0) return sum;
      reading = readInto(buffers[((i + 1) % 2) as 0 | 1]);
      const piece = buffers[(i % 2) as 0 | 1].subarray(0, bytesRead);
      sum.add(piece);
      blocks?.add(piece);
    }
  } finally {
    await handle.close();
  }
}
