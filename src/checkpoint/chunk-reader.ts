/**
 * Reads files in chunks into memory that is used again and again: of a file that is gone through in order, the next chunks are under way
 * while one is used. However many files and however large, the memory is the same.
 */
import { loadNative } from "../device/native.ts";
import { DirectFile } from "./direct-file.ts";

/** As much as keeps a drive busy, and few enough turns of the event loop. */
export const usualChunkBytes = 2 * 1024 * 1024;
/** Requests under way while a chunk is used. */
const ahead = 6;
/** Those, and one for each of two readers. */
const slotCount = ahead + 2;

export interface ChunkFile {
  readonly file: DirectFile;
  readonly bytes: number;
  readonly check: ((chunk: Uint8Array, begin: number) => void) | undefined;
  /** The chunk that was used last. */
  last: number;
}

interface Slot {
  readonly memory: Uint8Array;
  of: ChunkFile | undefined;
  index: number;
  chunk: Promise<Uint8Array>;
  /** Who waits for it or looks at it; until then it is not used again. */
  users: number;
  /** When it was used last, counted in uses. */
  used: number;
}

export class ChunkReader implements AsyncDisposable {
  readonly chunkBytes: number;
  readonly #files: ChunkFile[] = [];
  readonly #slots: Slot[] = [];
  #uses = 0;

  /** @param chunkBytes a multiple of the drive's alignment */
  constructor(chunkBytes = usualChunkBytes) {
    this.chunkBytes = chunkBytes;
  }

  /**
   * @param bytes that the file has
   * @param check is given every chunk that was read and where it begins, and throws where it is not what it should be
   */
  async open(path: string, bytes: number, check?: ChunkFile["check"]): Promise<ChunkFile> {
    const opened: ChunkFile = { file: await DirectFile.open(path), bytes, check, last: -1 };
    this.#files.push(opened);
    return opened;
  }

  /** Gives `take` bytes [first, end) of a file, part by part, each with where it begins; a part may change once `take` returns. */
  async read(
    of: ChunkFile,
    first: number,
    end: number,
    take: (part: Uint8Array, begin: number) => void,
  ): Promise<void> {
    for (let begin = first; begin < end; ) {
      const index = Math.floor(begin / this.chunkBytes);
      const chunkStart = index * this.chunkBytes;
      const partEnd = Math.min(end, chunkStart + this.chunkBytes);
      const slot = this.#slotOf(of, index);
      slot.users++;
      try {
        if (index === of.last + 1 || index === of.last) this.#readAhead(of, index);
        of.last = index;
        const chunk = await slot.chunk;
        take(chunk.subarray(begin - chunkStart, partEnd - chunkStart), begin);
      } finally {
        slot.users--;
      }
      begin = partEnd;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#slots.map(({ chunk }) => chunk));
    await Promise.all(this.#files.map(({ file }) => file.close()));
  }

  #readAhead(of: ChunkFile, index: number): void {
    const end = Math.min(index + 1 + ahead, Math.ceil(of.bytes / this.chunkBytes));
    for (let next = index + 1; next < end; next++) this.#slotOf(of, next);
  }

  /** The slot that has a chunk, or gets it now. */
  #slotOf(of: ChunkFile, index: number): Slot {
    const held = this.#slots.find((slot) => slot.of === of && slot.index === index);
    const slot = held ?? this.#free();
    slot.used = ++this.#uses;
    if (held) return slot;
    slot.of = of;
    slot.index = index;
    // What was under way into that memory ends first.
    slot.chunk = slot.chunk.catch(() => undefined).then(() => this.#load(slot.memory, of, index));
    slot.chunk.catch(() => undefined); // told where it is awaited
    return slot;
  }

  #free(): Slot {
    const unused = this.#slots.filter(({ users }) => users === 0);
    if (unused.length > 0 && this.#slots.length >= slotCount)
      return unused.reduce((oldest, slot) => (slot.used < oldest.used ? slot : oldest));
    const memory = new Uint8Array(loadNative().alignedMemory(this.chunkBytes));
    const slot: Slot = { memory, of: undefined, index: 0, chunk: Promise.resolve(memory), users: 0, used: 0 };
    this.#slots.push(slot);
    return slot;
  }

  async #load(memory: Uint8Array, of: ChunkFile, index: number): Promise<Uint8Array> {
    const position = index * this.chunkBytes;
    const wanted = Math.min(this.chunkBytes, of.bytes - position);
    const found = await of.file.read(memory, position);
    if (found < wanted) throw new Error(`it ends at byte ${position + found}; wanted ${of.bytes}`);
    const chunk = memory.subarray(0, wanted);
    of.check?.(chunk, position);
    return chunk;
  }
}
