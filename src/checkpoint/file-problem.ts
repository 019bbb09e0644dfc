/** Whether the files of a checkpoint are what was written, and if not, which part of which tensor is not. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { CheckpointError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { blocksHex, type Checksum, checksumOf } from "./checksum.ts";
import { openSafetensors } from "./safetensors.ts";
import { manifestName, parseEntryName, type SavedFile } from "./training-manifest.ts";

/** What is wrong with a file; undefined where nothing is. */
export async function fileProblem(folder: string, file: SavedFile): Promise<string | undefined> {
  const path = join(folder, file.name);
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error)
    return `${path} ${(found as NodeJS.ErrnoException).code === "ENOENT" ? `is missing, though ${manifestName} names it` : reasonOf(found)}`;
  if (found.size !== file.bytes)
    return `${path} has ${found.size} bytes; wanted ${file.bytes}, as ${manifestName} says`;
  try {
    const sum = await checksumOf(path, file.blockBytes);
    if (sum.hex === file.crc32) return undefined;
    const places = file.blockBytes === undefined ? "" : await describeDamage(path, file, sum);
    return `${path} has checksum ${sum.hex}; wanted ${file.crc32}, as ${manifestName} says: it is damaged, or not of this checkpoint${places}`;
  } catch (error) {
    return `${path} cannot be read: ${reasonOf(error)}`;
  }
}

/** @throws CheckpointError for the first of every `parts`-th file, from `part` on, that is not what was written */
export async function verifyFiles(
  folder: string,
  files: readonly SavedFile[],
  part: number,
  parts: number,
): Promise<void> {
  for (const file of files.filter((_, i) => i % parts === part)) {
    const problem = await fileProblem(folder, file);
    if (problem !== undefined) throw new CheckpointError(problem);
  }
}

const mostNamed = 3;

async function describeDamage(path: string, file: SavedFile, found: Checksum): Promise<string> {
  const { blockBytes } = found;
  const hex = blocksHex(found.blocks);
  const wanted = file.blocks ?? "";
  const damaged = found.blocks
    .map((_, i) => i)
    .filter((i) => hex.slice(8 * i, 8 * i + 8) !== wanted.slice(8 * i, 8 * i + 8));
  const named = await Promise.all(
    damaged.slice(0, mostNamed).map(async (i) => {
      const [first, end] = [i * blockBytes, Math.min((i + 1) * blockBytes, file.bytes)];
      return `\n  bytes ${first} to ${end}: ${await contentOf(path, file.bytes, first, end)}`;
    }),
  );
  if (damaged.length > mostNamed) named.push(`\n  and ${damaged.length - mostNamed} more such parts`);
  return named.join("");
}

/** Which elements lie in bytes [first, end) of a rank's file. */
async function contentOf(path: string, fileBytes: number, first: number, end: number): Promise<string> {
  let file: Awaited<ReturnType<typeof openSafetensors>>;
  try {
    file = await openSafetensors(path);
  } catch {
    return "the header, which cannot be read any more";
  }
  await using opened = file;
  const entries = [...opened.tensors.values()];
  const dataStart = fileBytes - Math.max(0, ...entries.map((entry) => entry.end));
  const touched = entries.flatMap(({ name, begin, end: entryEnd, elements }) => {
    const parsed = parseEntryName(name);
    const [from, to] = [Math.max(first - dataStart, begin), Math.min(end - dataStart, entryEnd)];
    if (!parsed || from >= to) return [];
    const size = (entryEnd - begin) / elements;
    const elementOf = (byte: number): number => parsed.first + Math.floor((byte - begin) / size);
    return [`${parsed.kind} of ${parsed.name}, elements ${elementOf(from)} to ${elementOf(to - 1) + 1}`];
  });
  if (first < dataStart) touched.unshift("the header");
  if (touched.length <= 2 * mostNamed) return touched.join("; ");
  const rest = touched.length - 2 * mostNamed;
  return `${[...touched.slice(0, mostNamed), `${rest} more`, ...touched.slice(-mostNamed)].join("; ")}`;
}
