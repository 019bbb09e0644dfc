/** Writes a safetensors file as a stream: no more than one piece is in memory. */

import type { FloatType } from "../device/halves.ts";
import { InternalError } from "../errors/errors.ts";
import { type Pieces, writeAtomically } from "./atomic-file.ts";
import { renderHeader, tensorBytes } from "./safetensors-header.ts";

export interface NewTensor {
  readonly name: string;
  readonly dtype: FloatType;
  readonly shape: readonly number[];
}

/** What PyTorch's loaders look for in the metadata. */
const metadata = { format: "pt" };

/**
 * Writes `entries` in their order. `source` is asked for each tensor in turn and gives its bytes (little-endian, row-major) in
 * pieces of any length. The file appears under `path` only once it is complete and on disk.
 */
export async function writeSafetensors<T extends NewTensor>(
  path: string,
  entries: readonly T[],
  source: (entry: T) => Pieces,
): Promise<void> {
  await writeAtomically(path, safetensorsPieces(entries, source));
}

/** The bytes of such a file. */
export async function* safetensorsPieces<T extends NewTensor>(
  entries: readonly T[],
  source: (entry: T) => Pieces,
): AsyncGenerator<Uint8Array> {
  if (new Set(entries.map((entry) => entry.name)).size !== entries.length)
    throw new InternalError("two tensors of one name are to be written to one file");
  yield renderHeader(entries, metadata);
  for (const entry of entries) {
    const wanted = tensorBytes(entry.dtype, entry.shape);
    let given = 0;
    for await (const piece of source(entry)) {
      given += piece.length;
      if (given > wanted) break;
      yield piece;
    }
    if (given !== wanted) throw new InternalError(`tensor ${entry.name}: ${given} bytes given; wanted ${wanted}`);
  }
}
