/** What `--data` names: files, folders and globs, each with an optional weight, as lists of files of known formats. */

import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { glob } from "tinyglobby";
import { DataError, UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { identify } from "./file-identity.ts";
import { Findings } from "./findings.ts";

/** How documents lie in a file. */
export type Format = "text" | "jsonl" | "parquet" | "tokens";
export type Packing = "none" | "gzip" | "zstd";

export interface SourceFile {
  readonly path: string;
  readonly format: Format;
  readonly packing: Packing;
}

export interface DataSource {
  /** As it was named, without the weight. */
  readonly name: string;
  /** Its share of the samples before normalisation; undefined: by its size. */
  readonly weight: number | undefined;
  /** Sorted by path (by UTF-16 code units, the same everywhere). */
  readonly files: readonly SourceFile[];
  /** The files were found in a folder or by a pattern, and not named one by one. */
  readonly isSearched: boolean;
  /** What the search passed over. */
  readonly findings: Findings;
}

const formats: Readonly<Record<string, Format>> = {
  txt: "text",
  text: "text",
  md: "text",
  jsonl: "jsonl",
  ndjson: "jsonl",
  parquet: "parquet",
  bin: "tokens",
};
const packings: Readonly<Record<string, Packing>> = { gz: "gzip", zst: "zstd" };
/** What people have, and what turns it into something that is read here. */
const unreadable: Readonly<Record<string, string>> = {
  bz2: "unpack it with bunzip2",
  xz: "unpack it with unxz",
  lz4: "unpack it with lz4 -d",
  zip: "unpack it with unzip",
  "7z": "unpack it with 7z x",
  tar: "unpack it with tar -xf",
  tgz: "unpack it with tar -xzf",
};

/** @throws UsageError for weights that do not fit together, DataError where nothing is found */
export async function findSources(args: readonly string[]): Promise<DataSource[]> {
  if (args.length === 0) throw new DataError("no data: name at least one text or .bin file with --data");
  const sources: DataSource[] = [];
  for (const arg of args) sources.push(await findSource(arg));
  const unweighed = sources.filter(({ weight }) => weight === undefined);
  if (unweighed.length > 0 && unweighed.length < sources.length)
    throw new UsageError(
      `--data: ${unweighed[0]!.name} has no weight, though others have one; give every source one, such as ` +
        `${unweighed[0]!.name}:0.5, or none`,
    );
  return sources;
}

/** That all of it is there, before anything that takes longer. @throws UsageError, DataError */
export async function checkThere(args: readonly string[]): Promise<void> {
  const sources = await findSources(args);
  await identify(sources.flatMap(({ files }) => files.map(({ path }) => path)));
}

async function findSource(arg: string): Promise<DataSource> {
  const { name, weight } = await splitWeight(arg);
  const findings = new Findings();
  const found = await stat(name).catch(() => undefined);
  if (found === undefined && isPattern(name)) {
    const paths = await search(name, ".");
    if (paths.length === 0) throw new DataError(`${name}: no file fits this pattern; check --data`);
    return { name, weight, files: paths.map((path) => describeFile(path)), isSearched: true, findings };
  }
  if (!found?.isDirectory()) return { name, weight, files: [describeFile(name)], isSearched: false, findings };
  await readdir(name).catch((error: Error) => {
    throw new DataError(`${name} cannot be read: ${reasonOf(error)}`, { cause: error });
  });
  const paths = (await search("**/*", name)).map((path) => join(name, path));
  const known = paths.filter((path) => knownFormat(path) !== undefined);
  for (const path of paths) if (knownFormat(path) === undefined) findings.note("otherFile", path);
  if (known.length === 0)
    throw new DataError(
      `${name} is a folder without data; wanted files that end in ${Object.keys(formats)
        .map((ending) => `.${ending}`)
        .join(", ")} (also with .gz or .zst after it)`,
    );
  return { name, weight, files: known.map((path) => describeFile(path)), isSearched: true, findings };
}

/** "a.txt:0.7" is a.txt with a weight, unless there is a file of that very name. */
async function splitWeight(arg: string): Promise<{ name: string; weight: number | undefined }> {
  const match = /^(.+):([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)$/i.exec(arg);
  if (match === null || (await stat(arg).catch(() => undefined))) return { name: arg, weight: undefined };
  const weight = Number(match[2]);
  if (!(weight > 0) || !Number.isFinite(weight))
    throw new UsageError(`--data ${arg}: found a weight of ${match[2]}; wanted a number above 0`);
  return { name: match[1]!, weight };
}

const isPattern = (name: string): boolean => /[*?[\]{}]/.test(name);

/** Regular files, hidden ones aside, in an order that is the same on every machine. */
async function search(pattern: string, folder: string): Promise<string[]> {
  const paths = await glob(pattern, { cwd: folder, expandDirectories: false, onlyFiles: true, dot: false });
  return paths.sort();
}

const endings = (path: string): string[] => path.toLowerCase().split("/").at(-1)!.split(".").slice(1);

function knownFormat(path: string): Format | undefined {
  const [ending, packing] = endings(path).reverse();
  if (ending !== undefined && packings[ending]) return packing === undefined ? undefined : formats[packing];
  return ending === undefined ? undefined : formats[ending];
}

/** @throws DataError for what cannot be read as it is */
function describeFile(path: string): SourceFile {
  const last = endings(path).at(-1) ?? "";
  if (Object.hasOwn(unreadable, last))
    throw new DataError(`${path}: .${last} is not read here (.gz and .zst are); ${unreadable[last]} first`);
  const packing = packings[last] ?? "none";
  const format = knownFormat(path) ?? "text";
  if (packing !== "none" && (format === "tokens" || format === "parquet"))
    throw new DataError(
      `${path} is ${format === "tokens" ? "a token file" : "a Parquet file"} that was packed as a whole, and those are read by range; unpack it first`,
    );
  return { path, format, packing };
}
