/** CRC-32 (as in gzip and PNG): finds damage by disks and copies, at several GB/s. It is no protection against forgery. */
import { open } from "node:fs/promises";
import { crc32 } from "node:zlib";

export class Checksum {
  bytes = 0;
  #value = 0;

  add(piece: Uint8Array): void {
    this.#value = crc32(piece, this.#value);
    this.bytes += piece.length;
  }

  get hex(): string {
    return this.#value.toString(16).padStart(8, "0");
  }
}

const readBytes = 8 * 1024 * 1024;

/** The checksum of a file, read from beginning to end with the next piece being read while one is added. */
export async function checksumOf(path: string): Promise<Checksum> {
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
      sum.add(buffers[(i % 2) as 0 | 1].subarray(0, bytesRead));
    }
  } finally {
    await handle.close();
  }
}
