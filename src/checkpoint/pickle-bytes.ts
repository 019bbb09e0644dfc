/** The bytes of a pickle, read from front to end; every complaint says at which byte. */
import { ModelError } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";

/** Far more than any number in a checkpoint has; Python's own are unbounded. */
const longestIntegerBytes = 64;
/** Of a module's or a class's name. */
const longestLine = 1000;

export class PickleBytes {
  readonly #path: string;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;
  /** Where the instruction that is carried out begins. */
  #instruction = 0;

  /** @param path how errors name it */
  constructor(path: string, bytes: Uint8Array) {
    this.#path = path;
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get length(): number {
    return this.#bytes.length;
  }

  /** An error at the instruction that is carried out. */
  error(message: string): ModelError {
    return new ModelError(`${this.#path}, byte ${this.#instruction}: ${message}`);
  }

  /** The next instruction's code. */
  next(): number {
    this.#instruction = this.#at;
    return this.byte();
  }

  byte(): number {
    return this.#bytes[this.#take(1)]!;
  }

  uint16(): number {
    return this.#view.getUint16(this.#take(2), true);
  }

  int32(): number {
    return this.#view.getInt32(this.#take(4), true);
  }

  uint32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }

  /** A length: nothing that it could count lies beyond the end. */
  uint64(): number {
    const value = this.#view.getBigUint64(this.#take(8), true);
    if (value > BigInt(this.length)) throw this.error(`found a length of ${value} in ${this.length} bytes`);
    return Number(value);
  }

  float64(): number {
    return this.#view.getFloat64(this.#take(8), false);
  }

  /** A number where it fits into one exactly, else a bigint. */
  integer(length: number): number | bigint {
    if (length > longestIntegerBytes)
      throw this.error(`found an integer of ${length} bytes; wanted at most ${longestIntegerBytes}`);
    const at = this.#take(length);
    let value = 0n;
    for (let i = length - 1; i >= 0; i--) value = (value << 8n) | BigInt(this.#bytes[at + i]!);
    const signed = length === 0 ? 0n : BigInt.asIntN(8 * length, value);
    return Number.isSafeInteger(Number(signed)) ? Number(signed) : signed;
  }

  text(length: number): string {
    const at = this.#take(length);
    try {
      // Python writes halves of surrogate pairs as they are; a tensor's or setting's name has none.
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.#bytes.subarray(at, at + length));
    } catch {
      throw this.error("found text that is not UTF-8");
    }
  }

  /** Text up to a line feed, which is passed over. */
  line(): string {
    const end = this.#bytes.indexOf(0x0a, this.#at);
    if (end === -1 || end - this.#at > longestLine) throw this.error("found a name without an end");
    const text = this.text(end - this.#at);
    this.#take(1);
    return text;
  }

  copy(length: number): Uint8Array<ArrayBuffer> {
    const at = this.#take(length);
    return this.#bytes.slice(at, at + length);
  }

  /** @returns where the bytes begin */
  #take(count: number): number {
    const at = this.#at;
    if (count > this.length - at)
      throw this.error(`wanted ${count} bytes more, found ${this.length - at}: it is truncated, or damaged`);
    this.#at += count;
    return at;
  }
}

/** A name from a file, short and harmless enough for a message. */
export function shownName(name: string): string {
  return printable(name.length > 100 ? `${name.slice(0, 100)}...` : name);
}
