/**
 * A training checkpoint on disk, opened and checked: all files there in their full size, every state of every tensor in them
 * once. Pieces are looked up by (tensor, kind, range) over all files, so that who wrote them does not matter: it can be read by
 * any number of ranks at any stage.
 */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { CheckpointError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { elementsOf } from "../tensor/tensor.ts";
import type { StateKind, StateSource } from "../zero/state.ts";
import { ChunkReader } from "./chunk-reader.ts";
import { verifyFiles } from "./file-problem.ts";
import { chunkBytesOf, hasCheckedBlocks, StateFile } from "./state-file.ts";
import { kindsOf, type Manifest, manifestName, parseEntryName, parseManifest } from "./training-manifest.ts";

export interface TrainingCheckpoint extends AsyncDisposable {
  readonly folder: string;
  readonly manifest: Manifest;
  readonly states: StateSource;
  /** Whether what `states` reads is compared with checksums on the way: else only `verify` tells damage. */
  readonly checksReads: boolean;
  /** Reads the files of every `parts`-th rank, from `part` on, and compares their checksums. @throws CheckpointError */
  verify(part: number, parts: number): Promise<void>;
}

/** @throws CheckpointError for whatever is missing, of another size or not as the format wants it */
export async function openTraining(folder: string): Promise<TrainingCheckpoint> {
  const manifest = await readManifest(folder);
  const reader = new ChunkReader(chunkBytesOf(manifest.files));
  const files: StateFile[] = [];
  try {
    for (const saved of manifest.files) {
      await checkSize(join(folder, saved.name), saved.bytes);
      files.push(await StateFile.open(folder, saved, reader));
    }
    const pieces = indexOf(files);
    checkCoverage(folder, manifest, pieces);
    return {
      folder,
      manifest,
      states: sourceOf(folder, pieces),
      checksReads: manifest.files.every(hasCheckedBlocks),
      verify: (part, parts) => verifyFiles(folder, manifest.files, part, parts),
      [Symbol.asyncDispose]: () => reader[Symbol.asyncDispose](),
    };
  } catch (error) {
    await reader[Symbol.asyncDispose]();
    if (error instanceof CheckpointError) throw error;
    throw new CheckpointError((error as Error).message, { cause: error });
  }
}

/** @throws CheckpointError */
export async function readManifest(folder: string): Promise<Manifest> {
  const path = join(folder, manifestName);
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    const missing = error.code === "ENOENT" || error.code === "ENOTDIR";
    const why = missing ? `has no ${manifestName}; wanted a checkpoint folder` : `cannot be read: ${reasonOf(error)}`;
    throw new CheckpointError(`${folder} ${why}`, { cause: error });
  });
  return parseManifest(text, path);
}

async function checkSize(path: string, wanted: number): Promise<void> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === "ENOENT" ? `is missing, though ${manifestName} names it` : error.message;
    throw new CheckpointError(`${path} ${why}`, { cause: error });
  });
  if (found.size !== wanted)
    throw new CheckpointError(`${path} has ${found.size} bytes; wanted ${wanted}, as ${manifestName} says`);
}

/** A range of a tensor's state, and where it is. */
interface SavedPiece {
  readonly first: number;
  readonly count: number;
  readonly file: StateFile;
  readonly entry: string;
}

const keyOf = (name: string, kind: StateKind): string => `${kind} of ${name}`;

/** By tensor and kind, in the order of elements. */
function indexOf(files: readonly StateFile[]): Map<string, SavedPiece[]> {
  const pieces = new Map<string, SavedPiece[]>();
  for (const file of files)
    for (const { name: entry, dtype, shape, elements } of file.entries.values()) {
      const parsed = parseEntryName(entry);
      if (!parsed || dtype !== "F32" || shape.length !== 1)
        throw new CheckpointError(
          `${file.path}: found ${entry}, ${dtype} [${shape.join(", ")}]; wanted entries "tensor|kind|first element", F32 in one dimension`,
        );
      const key = keyOf(parsed.name, parsed.kind);
      const list = pieces.get(key) ?? [];
      pieces.set(key, list);
      list.push({ first: parsed.first, count: elements, file, entry });
    }
  for (const list of pieces.values()) list.sort((a, b) => a.first - b.first);
  return pieces;
}

/** Every element of every state is there once, and nothing else. */
function checkCoverage(folder: string, manifest: Manifest, pieces: ReadonlyMap<string, readonly SavedPiece[]>): void {
  const known = new Set<string>();
  for (const [name, tensor] of Object.entries(manifest.tensors))
    for (const kind of kindsOf(manifest, tensor)) {
      const key = keyOf(name, kind);
      known.add(key);
      let end = 0;
      const fail = (found: string): never => {
        throw new CheckpointError(`${folder}: the ${key}: found ${found}; wanted each of its elements once`);
      };
      for (const { first, count } of pieces.get(key) ?? []) {
        if (first !== end) fail(`elements up to ${end} and then from ${first} on`);
        end += count;
      }
      const wanted = elementsOf(tensor.shape);
      if (end !== wanted) fail(`${end} of ${wanted} elements`);
    }
  const unknown = [...pieces.keys()].find((key) => !known.has(key));
  if (unknown !== undefined)
    throw new CheckpointError(`${folder}: its files hold the ${unknown}, which ${manifestName} does not name`);
}

function sourceOf(folder: string, pieces: ReadonlyMap<string, readonly SavedPiece[]>): StateSource {
  return {
    // What a run goes on from must be there: to say no would start that state anew in silence.
    has: () => true,
    read: async (name, kind, first, into) => {
      const end = first + into.length;
      const held = (pieces.get(keyOf(name, kind)) ?? []).filter((p) => p.first < end && p.first + p.count > first);
      let done = 0;
      for (const piece of held) {
        const from = Math.max(first, piece.first);
        const part = into.subarray(from - first, Math.min(end, piece.first + piece.count) - first);
        await piece.file.read(piece.entry, from - piece.first, part);
        done += part.length;
      }
      if (done !== into.length)
        throw new CheckpointError(`${folder} has ${done} of elements ${first} to ${end} of the ${keyOf(name, kind)}`);
    },
  };
}
