/** From what `--data` names to checked ranges of token files: plain data, which the ranks of a run are told and open as it is. */

import { availableParallelism } from "node:os";
import { DataError } from "../errors/errors.ts";
import { byteTokenizer } from "../tokenizer/tokenizer.ts";
import type { DocumentFile } from "./documents.ts";
import type { TextTokenizer } from "./encode-batch.ts";
import { type Encoders, inThisThread, type TokenizerModule, WorkerEncoders } from "./encoders.ts";
import { checkUnchanged, identify } from "./file-identity.ts";
import { describeFindings, type Finding, Findings } from "./findings.ts";
import { type DataSource, findSources, type SourceFile } from "./source-files.ts";
import { TokenCache } from "./token-cache.ts";
import { TokenFile, type TokenRange } from "./token-file.ts";
import { tokenize } from "./tokenize.ts";
import { checkVocabulary } from "./vocabulary.ts";

export interface PrepareOptions {
  readonly tokenizer: TextTokenizer;
  /** Of the model: every id is below it. */
  readonly vocabularySize: number;
  readonly textField: string;
  readonly cacheFolder: string;
  /** For workers to encode with, where there is enough to encode. Undefined: this thread does it all. */
  readonly tokenizerModule?: TokenizerModule;
  /** That the tokenizer was read from: a change of them is another tokenizer, whatever its name. */
  readonly tokenizerFiles?: readonly string[];
  /** Told while files are turned into tokens: bytes read of all bytes of this source. */
  readonly onProgress?: (name: string, readBytes: number, allBytes: number) => void;
}

export interface PreparedSource {
  readonly name: string;
  readonly weight: number | undefined;
  readonly ranges: readonly TokenRange[];
  readonly tokens: number;
}

export interface PreparedData {
  readonly sources: readonly PreparedSource[];
  /** Held out, or named apart; undefined where there is no validation. */
  readonly validation?: readonly PreparedSource[];
  /** Every file that is read. */
  readonly inputs: readonly string[];
  /** What a user should be told of the data. */
  readonly notices: readonly string[];
}

/** Checks all data once, turning what is not tokens yet into cached token files. @throws DataError, UsageError */
export async function prepareData(args: readonly string[], options: PrepareOptions): Promise<PreparedData> {
  if (options.tokenizer !== byteTokenizer) checkVocabulary(options.tokenizer, options.vocabularySize);
  const sources: PreparedSource[] = [];
  const notices: string[] = [];
  const inputs: string[] = [];
  for (const source of await findSources(args)) {
    const ranges: TokenRange[] = [];
    for (const group of groupsOf(source)) {
      const { range, findings } = await prepareGroup(source, group, options);
      ranges.push(range);
      source.findings.add(findings);
    }
    const notice = describeFindings(source.name, source.findings.list());
    if (notice !== undefined) notices.push(notice);
    inputs.push(...source.files.map(({ path }) => path));
    const tokens = ranges.reduce((sum, { count }) => sum + count, 0);
    sources.push({ name: source.name, weight: source.weight, ranges, tokens });
  }
  return { sources, inputs, notices };
}

/** Token files stay as they are; the others between them become one token file. */
function groupsOf({ files }: DataSource): SourceFile[][] {
  const groups: SourceFile[][] = [];
  for (const file of files) {
    const last = groups.at(-1);
    if (file.format === "tokens" || last === undefined || last[0]!.format === "tokens") groups.push([file]);
    else last.push(file);
  }
  return groups;
}

interface PreparedGroup {
  readonly range: TokenRange;
  readonly findings: readonly Finding[];
}

async function prepareGroup(
  source: DataSource,
  files: readonly SourceFile[],
  options: PrepareOptions,
): Promise<PreparedGroup> {
  const range = await directRange(source, files[0]!, options);
  return range === undefined
    ? await cachedRange(source, files as readonly DocumentFile[], options)
    : { range, findings: [] };
}

/** A file that is tokens as it lies there: a token file, or a plain text where bytes are tokens and nothing is odd. */
async function directRange(
  { isSearched }: DataSource,
  { path, format, packing }: SourceFile,
  { tokenizer, vocabularySize }: PrepareOptions,
): Promise<TokenRange | undefined> {
  const isPlain = format === "text" && packing === "none" && !isSearched && tokenizer === byteTokenizer;
  if (format !== "tokens" && !isPlain) return undefined;
  let isOdd = false;
  const file = await TokenFile.open(path, vocabularySize, (bytes) => {
    isOdd ||= bytes.includes(0x0d) || bytes.includes(0);
  });
  const { range } = file;
  await file.close();
  // A byte order mark is told of, too.
  return isPlain && (isOdd || range.startByte > 0) ? undefined : range;
}

async function cachedRange(
  { name, isSearched }: DataSource,
  files: readonly DocumentFile[],
  options: PrepareOptions,
): Promise<PreparedGroup> {
  const { tokenizer, textField, vocabularySize } = options;
  const cache = new TokenCache(options.cacheFolder);
  const paths = files.map(({ path }) => path);
  const identities = await identify(paths);
  const { name: tokenizerName, vocabularySize: entries, endOfText } = tokenizer;
  const tokenizerFiles = await identify(options.tokenizerFiles ?? []);
  const key = {
    tokenizer: { name: tokenizerName, entries, endOfText, files: tokenizerFiles },
    ...{ textField, isSearched, files: identities },
  };
  const allBytes = identities.reduce((sum, { size }) => sum + size, 0);
  let readBytes = 0;
  const onRead = (bytes: number): void => {
    readBytes += bytes;
    options.onProgress?.(name, readBytes, allBytes);
  };
  const entryName = cache.nameOf(key);
  const { entry, range } =
    (await cache.find(entryName)) ??
    (await cache.make(entryName, async (handle) => {
      const findings = new Findings();
      await using encoders = encodersFor(options, allBytes);
      const made = await tokenize(handle, { tokenizer, encoders, files, isSearched, findings, textField, onRead });
      await checkUnchanged(paths, identities);
      return made;
    }));
  if (entry.largestId >= vocabularySize)
    throw new DataError(
      `${name} has token id ${entry.largestId}; wanted ids below ${vocabularySize}, the model's vocabulary: use the model that ` +
        "the tokens were made for, or a larger vocabulary",
    );
  return { range, findings: entry.findings };
}

/** A worker takes a third of a second to start, in which one thread encodes about as much. */
const bytesPerWorker = 1 << 22;

function encodersFor({ tokenizer, tokenizerModule }: PrepareOptions, bytes: number): Encoders {
  const workers = Math.min(availableParallelism(), Math.floor(bytes / bytesPerWorker));
  return tokenizerModule === undefined || workers < 2
    ? inThisThread(tokenizer)
    : new WorkerEncoders(tokenizerModule, workers);
}
