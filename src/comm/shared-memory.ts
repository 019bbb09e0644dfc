/** Ranks of one machine: every rank maps every rank's device memory, and a small control region orders them. */
import { deviceFailure } from "../device/failure.ts";
import { loadNative, type Native } from "../device/native.ts";
import type { Transport } from "./group.ts";

export interface SharedMemoryOptions {
  readonly rank: number;
  readonly worldSize: number;
  /** Region handle of the group's control memory. */
  readonly control: number;
  /** Region handles of every rank's device memory, in rank order. */
  readonly arenas: readonly number[];
  /** The longest a call waits for the other ranks. */
  readonly deadlineMs: number;
  /** Words for a tag in error messages. */
  readonly describeTag: (tag: number) => string;
}

export class SharedMemoryTransport implements Transport {
  readonly rank: number;
  readonly worldSize: number;
  readonly handle: number;
  readonly #native: Native;
  readonly #describeTag: (tag: number) => string;

  constructor(options: SharedMemoryOptions) {
    this.rank = options.rank;
    this.worldSize = options.worldSize;
    this.#native = loadNative();
    this.#describeTag = options.describeTag;
    const { rank, worldSize, control, arenas, deadlineMs } = options;
    this.handle = this.#native.createGroup(rank, worldSize, control, [...arenas], deadlineMs);
  }

  exchange(tag: number, payload: Uint8Array): Promise<Uint8Array[]> {
    return this.#told(() => this.#native.exchange(this.handle, tag, payload));
  }

  exchangeAside(tag: number, payload: Uint8Array): Promise<Uint8Array[]> {
    return this.#told(() => this.#native.exchangeAside(this.handle, tag, payload));
  }

  dispose(): void {
    this.#native.destroyGroup(this.handle);
  }

  async #told(exchange: () => Promise<Uint8Array[]>): Promise<Uint8Array[]> {
    try {
      return await exchange();
    } catch (error) {
      throw deviceFailure(error, this.#describeTag);
    }
  }
}
