/**
 * Keys and values of the tokens that a language model has read, layer by layer, so that a text that grows is not read again for
 * every token. They count as activations: they are what a pass leaves for the passes after it.
 */
import type { Device } from "../device/device.ts";
import type { DType } from "../device/dtype.ts";
import { InternalError } from "../errors/errors.ts";
import type { EarlierKeys } from "../tensor/ops/attention.ts";
import { Tensor } from "../tensor/tensor.ts";

/** What a model keeps of one token: a row of keys and one of values in each layer. */
export interface KeyValueShape {
  readonly layers: number;
  /** Elements of a row of keys: heads of keys and values times their width. */
  readonly width: number;
}

export class KeyValueCache {
  /** Tokens that it has room for. */
  readonly capacity: number;
  readonly #layers: { readonly keys: Tensor; readonly values: Tensor }[] = [];
  #length = 0;
  #announced = 0;

  /** Takes all of its memory at once. @param dtype the activations' @throws MemoryBudgetError */
  constructor(device: Device, { layers, width }: KeyValueShape, capacity: number, dtype: DType) {
    this.capacity = capacity;
    const allocate = (): Tensor => Tensor.allocate(device, [capacity, width], dtype);
    try {
      for (let i = 0; i < layers; i++) {
        const keys = allocate();
        this.#layers.push({ keys, values: keys });
        this.#layers[i] = { keys, values: allocate() };
      }
    } catch (error) {
      this.dispose();
      throw error;
    }
  }

  /** Tokens that have been read: the place of the next one. */
  get length(): number {
    return this.#length;
  }

  layer(index: number): EarlierKeys {
    return { ...this.#layers[index]!, count: this.#length };
  }

  /** `tokens` more are in every layer: a pass has been issued. */
  add(tokens: number): void {
    if (this.#length + tokens > this.capacity)
      throw new InternalError(`${this.#length + tokens} tokens in a cache of ${this.capacity}`);
    this.#length += tokens;
  }

  /**
   * Tokens of the whole text once `next` more are read: so many, or as many as were announced. Where positions of a long text turn
   * otherwise than those of a short one, its first pass must know.
   */
  textTokens(next: number): number {
    return Math.max(this.#announced, this.#length + next);
  }

  /**
   * Forgets what was read, and keeps the memory.
   * @param textTokens of the text that is read next, in any number of passes; it may grow on. Left out: as many as its first pass has
   */
  clear(textTokens = 0): void {
    this.#length = 0;
    this.#announced = textTokens;
  }

  dispose(): void {
    for (const { keys, values } of this.#layers.splice(0)) for (const t of new Set([keys, values])) t.release();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
