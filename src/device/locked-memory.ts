/**
 * Page-locked host memory (`pin_memory`): a device copies from and to it without a detour, and the system never swaps it out.
 * A system allows only so much of it to a process; what it refuses stays pageable, and the run goes on.
 */
import type { MemoryLabel } from "./ledger.ts";

/** What is locked is whole pages. Where they are larger, a few more bytes are. */
const pageBytes = 4096;

type PageRange = readonly [first: number, end: number];

export interface LockReport {
  readonly lockedBytes: number;
  /** What was asked for and refused; nothing more is asked for after a refusal. */
  readonly refusedBytes: number;
}

export class LockedMemory implements LockReport {
  readonly #kinds: ReadonlySet<MemoryLabel>;
  readonly #lock: (offset: number, bytes: number) => boolean;
  /** Pages that are locked, as [first, end) in order, none touching the next. */
  #ranges: readonly PageRange[] = [];
  #refusedBytes = 0;

  /** @param kinds that are locked @param lock asks the system for bytes of the host's memory; false: it refuses */
  constructor(kinds: ReadonlySet<MemoryLabel>, lock: (offset: number, bytes: number) => boolean) {
    this.#kinds = kinds;
    this.#lock = lock;
  }

  get lockedBytes(): number {
    return this.#ranges.reduce((sum, [first, end]) => sum + end - first, 0) * pageBytes;
  }

  get refusedBytes(): number {
    return this.#refusedBytes;
  }

  /** Locks an allocation, unless its pages are locked from an earlier one. Memory that is freed stays locked for the next. */
  add(kind: MemoryLabel, offset: number, bytes: number): void {
    if (bytes === 0 || !this.#kinds.has(kind)) return;
    const first = Math.floor(offset / pageBytes);
    const end = Math.ceil((offset + bytes) / pageBytes);
    if (this.#ranges.some(([a, b]) => a <= first && end <= b)) return;
    if (this.#refusedBytes > 0 || !this.#lock(first * pageBytes, (end - first) * pageBytes))
      this.#refusedBytes += bytes;
    else this.#ranges = merged(this.#ranges, first, end);
  }
}

function merged(ranges: readonly PageRange[], first: number, end: number): PageRange[] {
  const touching = ranges.filter(([a, b]) => a <= end && first <= b);
  const apart = ranges.filter(([a, b]) => a > end || first > b);
  const all: readonly PageRange[] = [...touching, [first, end]];
  const one: PageRange = [Math.min(...all.map(([a]) => a)), Math.max(...all.map(([, b]) => b))];
  return [...apart, one].sort(([a], [b]) => a - b);
}

/** What a process may lock, in bytes; undefined where the system does not say, or sets no limit. */
export function lockLimitBytes(): number | undefined {
  const report = process.report?.getReport() as { userLimits?: { max_locked_memory_bytes?: { soft: unknown } } };
  const limit = report?.userLimits?.max_locked_memory_bytes?.soft;
  return typeof limit === "number" ? limit : undefined;
}

/** What the user should be told of pages that could not be locked. */
export function lockNotices({ lockedBytes, refusedBytes }: LockReport): readonly string[] {
  if (refusedBytes === 0) return [];
  const limit = lockLimitBytes();
  const why = limit === undefined ? "the system refuses more" : `a process may lock ${limit} bytes here`;
  return [
    `pin_memory: ${refusedBytes} bytes of host memory are not page-locked and ${lockedBytes} are: ${why}; training is not ` +
      "otherwise affected. Raise the limit (ulimit -l; memlock in /etc/security/limits.conf; LimitMEMLOCK of a service; --ulimit memlock=-1 of a container), or write pin_memory false",
  ];
}
