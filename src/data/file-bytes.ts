/** The bytes of a file in order, unpacked, in constant memory. */

import { createReadStream } from "node:fs";
import { createGunzip } from "node:zlib";
import { Decompress } from "fzstd";
import { DataError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import type { SourceFile } from "./source-files.ts";

const chunkBytes = 1 << 20;
/** Of a Zstandard file, unpacked at a time. */
const pieceBytes = 1 << 13;

/** A file that holds nothing: refused where it was named, left out where it was found. */
export class EmptyFileError extends DataError {}

/** @param onRead is told how many bytes of the file itself were read @throws DataError where it cannot be read or unpacked */
export async function* fileBytes(
  { path, packing }: Pick<SourceFile, "path" | "packing">,
  onRead: (bytes: number) => void = () => {},
): AsyncGenerator<Buffer> {
  const stream = createReadStream(path, { highWaterMark: chunkBytes });
  stream.on("data", (chunk) => onRead(chunk.length));
  stream.pause();
  try {
    if (packing === "gzip") yield* gunzip(stream);
    else if (packing === "zstd") yield* unzstd(stream);
    else yield* stream as AsyncIterable<Buffer>;
  } catch (error) {
    throw readError(path, packing, error as NodeJS.ErrnoException);
  } finally {
    stream.destroy();
  }
}

async function* gunzip(stream: ReturnType<typeof createReadStream>): AsyncGenerator<Buffer> {
  const unpacked = createGunzip({ chunkSize: chunkBytes });
  stream.on("error", (error) => unpacked.destroy(error));
  yield* stream.pipe(unpacked) as AsyncIterable<Buffer>;
}

/** By a library, since Node has Zstandard from version 22.15 on only. It does not compare checksums. */
async function* unzstd(stream: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let unpacked: Buffer[] = [];
  let isEmpty = true;
  const decompress = new Decompress((bytes) => {
    // The library reuses its memory.
    if (bytes.length > 0) unpacked.push(Buffer.from(bytes));
  });
  for await (const chunk of stream) {
    isEmpty = false;
    // All that one piece holds is in memory, and it may hold a lot.
    for (let at = 0; at < chunk.length; at += pieceBytes) {
      decompress.push(chunk.subarray(at, at + pieceBytes));
      yield* unpacked;
      unpacked = [];
    }
  }
  if (isEmpty) return;
  decompress.push(new Uint8Array(0), true);
  yield* unpacked;
}

function readError(path: string, packing: SourceFile["packing"], error: NodeJS.ErrnoException): Error {
  if (error instanceof DataError) return error;
  const isSystem = error.syscall !== undefined;
  if (error.code === "ENOENT") return new DataError(`${path}: no such file; check --data`, { cause: error });
  if (packing === "none" || isSystem)
    return new DataError(`${path} cannot be read: ${reasonOf(error)}`, { cause: error });
  const isCut = /unexpected end of file|unexpected EOF/i.test(error.message);
  const kind = packing === "gzip" ? "gzip" : "Zstandard";
  return new DataError(
    isCut
      ? `${path} is cut off: its ${kind} data end in the middle; copy or download it again`
      : `${path} cannot be unpacked: ${error.message}; it is damaged, or not a ${kind} file`,
    { cause: error },
  );
}
