/**
 * The global gradient norm. Each rank sums the squares of its own range of every flat buffer, in blocks of 4096 elements with
 * fp64 partials, at every stage; the sums are added in (unit, rank) order, so no stage, bucket or sub-group changes the result
 * (contracts 17).
 */
import type { Device, DeviceBuffer } from "../device/device.ts";
import { computeQueueOf, type MemoryTier } from "../device/queue.ts";
import { normBlock } from "../plan/partial-offload.ts";
import type { FlatState } from "./flat.ts";

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
  /** An entry a flat buffer, in each tier in which gradients rest. */
  readonly #sums = new Map<MemoryTier, DeviceBuffer>();

  constructor(device: Device, flats: readonly FlatState[]) {
    this.#device = device;
    this.#flats = flats.filter((f) => f.layout.trainable);
    for (const tier of this.#tiers) {
      const bytes = Math.max(1, this.#flats.length) * entryBytes;
      this.#sums.set(tier, device.allocate("other", bytes, computeQueueOf[tier], tier));
    }
  }

  /** This rank's sums: [sum of squares, non-finite elements] of each trainable flat buffer's own range. */
  async partials(): Promise<Float64Array> {
    let sums = new Float64Array(2 * this.#flats.length);
    for (const tier of this.#tiers) sums = await this.#addTier(tier, sums);
    return sums;
  }

  /** Continues the sums with what rests in a tier: the blocks of one flat buffer are added in order, also across tiers. */
  async #addTier(tier: MemoryTier, before: Float64Array): Promise<Float64Array<ArrayBuffer>> {
    const device = this.#device;
    const queue = computeQueueOf[tier];
    const sums = this.#sums.get(tier)!;
    device.upload(sums.at(), before, queue);
    for (const [i, { segments, own }] of this.#flats.entries())
      for (const segment of segments.filter((s) => s.computeTier === tier)) {
        const start = Math.max(segment.start, own.start);
        device.wait(queue, segment.settled);
        device.issue(queue, "squareSum", {
          count: Math.min(segment.end, own.end) - start,
          dtype: segment.gradients.dtype,
          x: segment.gradients.at(start),
          block: normBlock,
          out: sums.at(i * entryBytes),
          accumulate: true,
        });
      }
    const bytes = await device.read(sums.at(), "f64", before.length, before, queue);
    return new Float64Array(bytes.buffer as ArrayBuffer);
  }

  /** Device first: sub-groups that stay there come first. */
  get #tiers(): MemoryTier[] {
    const used = new Set(this.#flats.flatMap((f) => f.segments.map((s) => s.computeTier)));
    return (["device", "host"] as const).filter((tier) => used.has(tier));
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
    for (const [tier, sums] of this.#sums) this.#device.free(sums, computeQueueOf[tier]);
  }
}
