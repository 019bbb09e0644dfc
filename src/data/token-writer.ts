/** Tokens on their way into a file, a megabyte at a time. */

import type { FileHandle } from "node:fs/promises";
import type { TokenBytes } from "./token-file.ts";

const bufferTokens = 1 << 18;

export class TokenWriter {
  count = 0;
  /** The largest id so far; -1 before the first. */
  largest = -1;
  readonly #handle: FileHandle;
  readonly #buffer: Uint8Array | Uint16Array | Uint32Array;
  #filled = 0;

  constructor(handle: FileHandle, tokenBytes: TokenBytes) {
    this.#handle = handle;
    const Words = tokenBytes === 1 ? Uint8Array : tokenBytes === 2 ? Uint16Array : Uint32Array;
    this.#buffer = new Words(bufferTokens);
  }

  /** @throws the system's error where the disk does */
  async write(tokens: Uint32Array): Promise<void> {
    for (let done = 0; done < tokens.length; ) {
      const part = tokens.subarray(done, done + this.#buffer.length - this.#filled);
      this.#buffer.set(part, this.#filled);
      for (const token of part) if (token > this.largest) this.largest = token;
      this.#filled += part.length;
      done += part.length;
      if (this.#filled === this.#buffer.length) await this.flush();
    }
    this.count += tokens.length;
  }

  async flush(): Promise<void> {
    const bytes = new Uint8Array(this.#buffer.buffer, 0, this.#filled * this.#buffer.BYTES_PER_ELEMENT);
    for (let done = 0; done < bytes.length; ) done += (await this.#handle.write(bytes, done)).bytesWritten;
    this.#filled = 0;
  }
}
