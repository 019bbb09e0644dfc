/** Writes a file of a checkpoint: ranges of tensors' states, and checksums of what was written. */
import type { StateKind } from "../zero/state.ts";
import { type Pieces, writeAtomically } from "./atomic-file.ts";
import { blockBytesOf, blocksHex, Checksum } from "./checksum.ts";
import { safetensorsPieces } from "./safetensors-writer.ts";
import { entryName, type SavedFile } from "./training-manifest.ts";

export interface StateEntry {
  readonly name: string;
  readonly kind: StateKind;
  /** First element, counted within the tensor. */
  readonly first: number;
  readonly count: number;
}

export interface WrittenFile {
  readonly bytes: number;
  readonly crc32: number;
  readonly blockBytes: number;
  /** CRC-32 of each block. */
  readonly blocks: readonly number[];
}

/** @param source gives an entry's fp32 values in pieces of any length @throws ModelError where the disk does not take it */
export async function writeStates<T extends StateEntry>(
  path: string,
  states: readonly T[],
  source: (entry: T) => Pieces,
): Promise<WrittenFile> {
  const entries = states.map((state) => ({
    name: entryName(state.name, state.kind, state.first),
    dtype: "F32" as const,
    shape: [state.count],
    state,
  }));
  // Without the header, which is small: of blocks it matters only that there are not too many.
  const sum = new Checksum(blockBytesOf(states.reduce((bytes, { count }) => bytes + 4 * count, 0)));
  const counted = async function* (): AsyncGenerator<Uint8Array> {
    for await (const piece of safetensorsPieces(entries, ({ state }) => source(state))) {
      sum.add(piece);
      yield piece;
    }
  };
  await writeAtomically(path, counted());
  return {
    bytes: sum.bytes,
    crc32: sum.value,
    blockBytes: sum.blockBytes,
    blocks: sum.blocks,
  };
}

/** As checkpoint.json names it. */
export const savedFile = (name: string, { bytes, crc32, blockBytes, blocks }: WrittenFile): SavedFile => ({
  name,
  bytes,
  crc32: blocksHex([crc32]),
  blockBytes,
  blocks: blocksHex(blocks),
});
