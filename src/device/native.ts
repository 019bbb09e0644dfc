/** The native core's surface, and its loader. Everything above talks to it through a Device. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { NativeMissingError } from "../errors/errors.ts";

/** Handles are small integers; offsets and sizes are bytes, exact below 2^53. Wrong ranges throw RangeError. */
export interface Native {
  /** Instruction sets this machine runs, best first, and the one in use. */
  isa(): { available: string[]; selected: string };
  selectIsa(name: string): void;
  /** Memory that JavaScript reads and writes and that begins at a page's border, as direct I/O wants it. */
  alignedMemory(bytes: number): ArrayBuffer;
  /** What the values of elements from number `first` on add to their tensor's digest: below 2^64, and added modulo that. */
  elementDigest(values: Float32Array, first: number): bigint;
  /** Memory that only this process uses (pages appear when touched). */
  createRegion(bytes: number): number;
  /** A descriptor of anonymous shared memory (memfd; elsewhere an unlinked file) that children can inherit. */
  createSharedMemory(bytes: number): number;
  /** Maps an inherited descriptor. */
  openRegion(descriptor: number, bytes: number): number;
  closeRegion(region: number): void;
  /** Locks pages in memory (`pin_memory`); false if the system refuses. */
  lockRegion(region: number, offset: number, bytes: number): boolean;
  /** Copies out of or into a region on the calling thread: the caller has awaited the event that makes it safe. */
  readRegion(region: number, offset: number, into: Uint8Array): void;
  writeRegion(region: number, offset: number, from: Uint8Array): void;
  /** Enqueues a copy of `from` (taken at once) into a region, in queue order. Returns its sequence number. */
  upload(queue: number, region: number, offset: number, from: Uint8Array): number;
  /** CRC-32, as in gzip and PNG, of bytes that follow those of checksum `value` (0: none). Takes the caller's time. */
  crc32(bytes: Uint8Array, value: number): number;
  /** A queue runs its ops in order on its own thread with a pool of `threads` workers (the thread included). */
  createQueue(threads: number): number;
  destroyQueue(queue: number): void;
  /** Checks and enqueues an op; returns its sequence number on that queue (1, 2, ...). Never waits. */
  issue(queue: number, op: number, args: Float64Array): number;
  /** Bytes of scratch this op needs (the same args; its scratch span is ignored). */
  scratchBytes(op: number, args: Float64Array, threads: number): number;
  /** Enqueues on `queue` a wait until `other` has completed its op number `sequence`. Returns the wait's own sequence number. */
  wait(queue: number, other: number, sequence: number): number;
  /** Resolves when `queue` has completed op number `sequence`; rejects if an op at or before it failed (see NativeFailure). */
  reached(queue: number, sequence: number): Promise<void>;
  completed(queue: number): number;
  /** Completion times of ops, for the trace: [sequence, startMicroseconds, endMicroseconds] triples since the last call; empty unless enabled. */
  trace(queue: number, enabled: boolean): Float64Array;
  /**
   * Joins this process to a group as `rank`. `control` is a shared region of at least controlBytes(world) zeroed bytes;
   * `arenas[r]` is this process's mapping of rank r's device memory. Collectives wait at most `deadlineMs`.
   */
  createGroup(rank: number, world: number, control: number, arenas: number[], deadlineMs: number): number;
  destroyGroup(group: number): void;
  controlBytes(world: number): number;
  /** Every rank gives up to 256 KiB, every rank gets all of them, in rank order. Independent of all queues. */
  exchange(group: number, tag: number, payload: Uint8Array): Promise<Uint8Array[]>;
  /** The same in an order of its own, for work that runs aside of a program's other calls: neither waits for the other. */
  exchangeAside(group: number, tag: number, payload: Uint8Array): Promise<Uint8Array[]>;
  /** Operations per second of one thread working in registers alone, for a dtype's code: what benchmarks hold kernels against. */
  measurePeak(dtype: number): number;
  /**
   * Says that the process of `rank` ended. With an exit code other than 0 every wait in the group of `control`, now and later,
   * ends with code ABORTED; with 0 only those that wait for that rank.
   */
  abortGroup(control: number, rank: number, exitCode: number): void;
  /**
   * Makes the files of a disk tier, which must not exist yet, in their full size. Throws a NativeFailure of code DISK, and then
   * leaves none. `direct`: of each file, whether it is past the page cache.
   */
  createSwap(options: NativeSwapOptions): { swap: number; direct: boolean[] };
  /** Its files are closed when the last op that uses them is over; who made their names removes them. */
  destroySwap(options: { swap: number }): void;
  /** For tests. */
  injectSwapFault(options: SwapFault & { swap: number }): void;
}

export interface NativeSwapOptions {
  readonly paths: readonly string[];
  readonly capacityBytes: number;
  /** A multiple of 4096: the most bytes of a request, and what goes to one file before the next one's turn. */
  readonly blockBytes: number;
  /** In each direction; each is a thread that sleeps while the drive works. */
  readonly requestsInFlight: number;
  /** How many of sum(shares) consecutive blocks each file gets. */
  readonly shares: readonly number[];
  /** Whether the checksums of blocks are made and checked. */
  readonly verify: boolean;
  /** Whether to ask for direct I/O at all. */
  readonly direct: boolean;
  /** Named in failures. */
  readonly rank: number;
}

/**
 * The op after the next `afterOps` of a direction suffers this in one of its requests: an error of the drive, a full disk, half of it done
 * and then no more (short), half of it done at first (partial), one bit changed on the way (flip). A delay comes before that op
 * and all after it, and lasts `delayMs`.
 */
export interface SwapFault {
  readonly operation: "read" | "write";
  readonly kind: "readError" | "diskFull" | "short" | "partial" | "flip" | "delay";
  readonly afterOps: number;
  readonly delayMs: number;
}

/** What `reached` and `exchange` reject with. `details` is JSON; its shape depends on `code`. */
export interface NativeFailure extends Error {
  /**
   * TIMEOUT {rank, op, tag, waitedMs, missing:[ranks]}; DESYNC {ranks:[{rank, op, tag, count}]}; ABORTED {rank, exitCode};
   * DEVICE {op, message}; DISK {rank, file, operation, offset, bytes, reason, what}; INTERNAL {message}.
   */
  code: "TIMEOUT" | "DESYNC" | "ABORTED" | "DEVICE" | "DISK" | "INTERNAL";
  details: string;
}

let loaded: Native | undefined;

/** Loads the addon once. Throws NativeMissingError with what was tried and what to run. */
export function loadNative(): Native {
  if (loaded) return loaded;
  const path = fileURLToPath(new URL("../../build/shunya.node", import.meta.url));
  if (!existsSync(path)) throw new NativeMissingError([path]);
  loaded = createRequire(import.meta.url)(path) as Native;
  return loaded;
}
