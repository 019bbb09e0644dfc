/** A rank's part of the disk tier: one file in each of the given folders, and what came of asking for direct I/O. */
import { InternalError } from "../errors/errors.ts";
import { deviceFailure } from "./failure.ts";
import { loadNative, type SwapFault } from "./native.ts";
import { checkRoom, SwapFolder, type SwapGround } from "./swap-folder.ts";

/** Offsets and lengths on disk, and addresses of what goes there, are multiples of this many bytes. */
export const diskAlignmentBytes = 4096;

/** Requests under way in each direction are at most this many: no drive is faster with more, and each is a thread. */
export const mostRequestsInFlight = 32;

/** How a drive is asked, by the names of DeepSpeed's `aio` section: block_size, queue_depth, intra_op_parallelism. */
export interface AioSettings {
  readonly blockBytes: number;
  readonly queueDepth: number;
  readonly parallelism: number;
}

export interface SwapOptions extends AioSettings {
  /** Existing folders, one a drive; each gets a folder of this process with one file. */
  readonly folders: readonly string[];
  /** How many of sum(shares) consecutive blocks each folder gets (see measureShares); equal shares if left out. */
  readonly shares?: readonly number[];
  readonly capacityBytes: number;
  readonly rank: number;
  /** Whether checksums are made and checked. */
  readonly verify: boolean;
}

export class Swap implements Disposable {
  readonly capacityBytes: number;
  /** What the native core knows it by. */
  readonly handle: number;
  /** False where any file system refuses direct I/O: then what lies there goes through the system's page cache. */
  readonly isDirect: boolean;
  /** Of the capacity, what lies in memory (tmpfs). */
  readonly memoryBytes: number;
  /** What the user should be told once. */
  readonly notices: readonly string[];
  readonly #native = loadNative();
  readonly #folders: readonly SwapFolder[];
  #isOpen = true;

  /** @throws UsageError where a folder cannot be used or has no room, DiskError where its file cannot be made */
  constructor(options: SwapOptions) {
    const { folders, capacityBytes, rank, verify } = options;
    // A file is made of whole blocks, so one that is larger than everything would only take room.
    const blockBytes = wholePages(Math.min(options.blockBytes, capacityBytes));
    const shares = options.shares ?? folders.map(() => 1);
    if (folders.length !== shares.length || folders.length === 0)
      throw new InternalError(`a swap of ${folders.length} folders with ${shares.length} shares`);
    this.capacityBytes = capacityBytes;
    const parts = partsOf(capacityBytes, shares, blockBytes);
    const grounds = folders.map((folder, i) => checkRoom(folder, parts[i]!));
    this.#folders = makeFolders(folders);
    try {
      const made = this.#native.createSwap({
        paths: this.#folders.map((folder) => folder.file(rank)),
        requestsInFlight: requestsInFlight(options),
        ...{ capacityBytes, blockBytes, shares, verify, direct: true, rank },
      });
      this.handle = made.swap;
      this.isDirect = made.direct.every((direct) => direct);
      this.notices = folders.flatMap((folder, i) => noticesOf(folder, grounds[i]!, made.direct[i]!));
    } catch (error) {
      for (const folder of this.#folders) folder[Symbol.dispose]();
      throw error instanceof RangeError ? error : deviceFailure(error, String);
    }
    this.memoryBytes = parts.reduce((sum, bytes, i) => sum + (grounds[i]!.isMemory ? bytes : 0), 0);
  }

  /** Its files, one a folder. */
  get paths(): readonly string[] {
    return this.#folders.map((folder) => folder.path);
  }

  /** For tests: see SwapFault. */
  inject(fault: Pick<SwapFault, "operation" | "kind"> & Partial<SwapFault>): void {
    this.#native.injectSwapFault({ swap: this.handle, afterOps: 0, delayMs: 0, ...fault });
  }

  /** Ops that are under way still end; then nothing is left on the disk. */
  dispose(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#native.destroySwap({ swap: this.handle });
    for (const folder of this.#folders) folder[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

const wholePages = (bytes: number): number => Math.max(1, Math.ceil(bytes / diskAlignmentBytes)) * diskAlignmentBytes;

/** Requests that are under way in each direction with these settings. */
export const requestsInFlight = ({ queueDepth, parallelism }: AioSettings): number =>
  Math.max(1, Math.min(queueDepth * parallelism, mostRequestsInFlight));

/** All of them or none. */
function makeFolders(parents: readonly string[]): SwapFolder[] {
  const made: SwapFolder[] = [];
  try {
    for (const parent of parents) made.push(new SwapFolder(parent));
    return made;
  } catch (error) {
    for (const folder of made) folder[Symbol.dispose]();
    throw error;
  }
}

/** Bytes of each file, up to one round of blocks too many. */
function partsOf(capacityBytes: number, shares: readonly number[], blockBytes: number): number[] {
  const blocks = Math.ceil(capacityBytes / blockBytes);
  const total = shares.reduce((sum, share) => sum + share, 0);
  return shares.map((share) => Math.min(blocks, Math.ceil(blocks / total) * share) * blockBytes);
}

function noticesOf(folder: string, { isMemory }: SwapGround, isDirect: boolean): string[] {
  if (isMemory)
    return [`${folder} lies in memory, not on a drive: what is offloaded to it is counted to the host's memory`];
  if (isDirect) return [];
  return [`the file system of ${folder} refuses direct I/O: its swap file is read and written through the page cache`];
}
