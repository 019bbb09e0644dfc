/** A world of any size in which this rank is the only one there is: the others are taken to say the same. */
import type { Transport } from "./group.ts";

export class SimulatedTransport implements Transport {
  readonly rank: number;
  readonly worldSize: number;
  readonly handle = 0;

  constructor(rank: number, worldSize: number) {
    this.rank = rank;
    this.worldSize = worldSize;
  }

  async exchange(_tag: number, payload: Uint8Array): Promise<Uint8Array[]> {
    return Array.from({ length: this.worldSize }, () => payload);
  }

  exchangeAside(tag: number, payload: Uint8Array): Promise<Uint8Array[]> {
    return this.exchange(tag, payload);
  }

  dispose(): void {}
}
