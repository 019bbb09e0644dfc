/**
 * Offsets within one tier's memory: best fit over a list of free blocks, deterministic, so that every rank and the simulated
 * device place the same program alike. A freed block remembers the last op of each queue that may still touch it; whoever
 * takes it over on another queue waits for those ops (that is how freed memory is "reusable in queue order").
 */
import { InternalError } from "../errors/errors.ts";
import type { Event, QueueName } from "./queue.ts";

interface FreeBlock {
  offset: number;
  bytes: number;
  fences: readonly Event[];
}

const laterOf = (a: readonly Event[], b: readonly Event[]): readonly Event[] => {
  if (b.length === 0) return a;
  if (a.length === 0) return b;
  const last = new Map<QueueName, Event>();
  for (const e of [...a, ...b]) if (e.sequence > (last.get(e.queue)?.sequence ?? -1)) last.set(e.queue, e);
  return [...last.values()];
};

export class Arena {
  readonly alignment: number;
  readonly capacityBytes: number;
  readonly #free: FreeBlock[];
  #highWater = 0;

  constructor(capacityBytes: number, alignment: number) {
    this.alignment = alignment;
    this.capacityBytes = capacityBytes;
    this.#free = [{ offset: 0, bytes: capacityBytes, fences: [] }];
  }

  /** The most bytes of address space ever in use: what the operating system may have had to back. */
  get highWaterBytes(): number {
    return this.#highWater;
  }

  roundUp(bytes: number): number {
    return Math.max(1, Math.ceil(bytes / this.alignment)) * this.alignment;
  }

  /** Whether a block of `bytes` is free. */
  hasRoom(bytes: number): boolean {
    return this.#free.some((block) => block.bytes >= bytes);
  }

  /** @param bytes a multiple of the alignment, for which there is room */
  take(bytes: number): { offset: number; fences: readonly Event[] } {
    let best = -1;
    for (let i = 0; i < this.#free.length; i++) {
      const size = this.#free[i]!.bytes;
      if (size >= bytes && (best < 0 || size < this.#free[best]!.bytes)) best = i;
    }
    if (best < 0) throw new InternalError(`the arena has no free block of ${bytes} bytes`);
    const block = this.#free[best]!;
    const { offset, fences } = block;
    if (block.bytes === bytes) this.#free.splice(best, 1);
    else {
      block.offset += bytes;
      block.bytes -= bytes;
    }
    this.#highWater = Math.max(this.#highWater, offset + bytes);
    return { offset, fences };
  }

  /** Gives a block back; `fences` are the ops that may still touch it. */
  give(offset: number, bytes: number, fences: readonly Event[]): void {
    let i = this.#free.findIndex((b) => b.offset > offset);
    if (i < 0) i = this.#free.length;
    const before = this.#free[i - 1];
    const after = this.#free[i];
    const joinsBefore = before !== undefined && before.offset + before.bytes === offset;
    const joinsAfter = after !== undefined && offset + bytes === after.offset;
    if (joinsBefore) {
      before.bytes += bytes;
      before.fences = laterOf(before.fences, fences);
      if (joinsAfter) {
        before.bytes += after.bytes;
        before.fences = laterOf(before.fences, after.fences);
        this.#free.splice(i, 1);
      }
    } else if (joinsAfter) {
      after.offset = offset;
      after.bytes += bytes;
      after.fences = laterOf(after.fences, fences);
    } else this.#free.splice(i, 0, { offset, bytes, fences });
  }
}
