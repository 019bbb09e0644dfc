/**
 * The global gradient norm. Each rank sums the squares of its own range of every flat buffer, in blocks of 4096 elements with
 * fp64 partials, at every stage; the sums are added in (unit, rank) order, so no stage, bucket or sub-group changes the result
 * (contracts 17).
 */
import type { Device, DeviceBuffer } from "../device/device.ts";
import type { FlatState } from "./flat.ts";

const blockElements = 4096;
/** Sum of squares and count of non-finite elements, fp64 each. */
const entryBytes = 16;

export interface GlobalNorm {
  /** L2 norm of the mean gradient over all ranks. */
  readonly norm: number;
  /** Flat buffers with an element that is not finite on some rank. */
  readonly nonFinite: readonly FlatState[];
}

export class GradientNorm {
  readonly #device: Device;
  readonly #flats: readonly FlatState[];
  readonly #sums: DeviceBuffer;

  constructor(device: Device, flats: readonly FlatState[]) {
    this.#device = device;
    this.#flats = flats.filter((f) => f.layout.trainable);
    this.#sums = device.allocate("other", Math.max(1, this.#flats.length) * entryBytes);
  }

  /** This rank's sums: [sum of squares, non-finite elements] of each trainable flat buffer's own range. */
  async partials(): Promise<Float64Array> {
    for (const [i, state] of this.#flats.entries()) {
      this.#device.wait("compute", state.settled);
      this.#device.issue("compute", "squareSum", {
        count: state.layout.rangeElements,
        dtype: state.gradients!.dtype,
        x: state.gradients!.at(state.own.start),
        block: blockElements,
        out: this.#sums.at(i * entryBytes),
      });
    }
    const count = this.#flats.length * 2;
    const bytes = await this.#device.read(this.#sums.at(), "f64", count, new Float64Array(count));
    return new Float64Array(bytes.buffer);
  }

  /** @param ranks every rank's partials, in rank order */
  combine(ranks: readonly Float64Array[]): GlobalNorm {
    let total = 0;
    const nonFinite: FlatState[] = [];
    for (const [i, state] of this.#flats.entries()) {
      for (const partials of ranks) total += partials[2 * i]!;
      if (ranks.some((partials) => partials[2 * i + 1]! > 0)) nonFinite.push(state);
    }
    return { norm: Math.sqrt(total), nonFinite };
  }

  dispose(): void {
    this.#device.free(this.#sums);
  }
}
