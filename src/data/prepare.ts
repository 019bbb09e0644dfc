/** From what `--data` names to checked ranges of token files, or of samples: plain data, which a run's ranks are told and open as it is. */

import type { FileHandle } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { DataError, UsageError } from "../errors/errors.ts";
import { byteTokenizer } from "../tokenizer/tokenizer.ts";
import type { DocumentFile } from "./documents.ts";
import type { TextTokenizer } from "./encode-batch.ts";
import { type Encoders, inThisThread, type TokenizerModule, WorkerEncoders } from "./encoders.ts";
import { bytesOf, checkUnchanged, identify, progressOf } from "./file-identity.ts";
import { describeFindings, type Finding, Findings } from "./findings.ts";
import { holdsInstructions } from "./instruction-records.ts";
import type { SampleRange } from "./sample-file.ts";
import { type DataSource, findSources, type SourceFile } from "./source-files.ts";
import { type CachedTokens, type CacheEntry, TokenCache } from "./token-cache.ts";
import { TokenFile, type TokenRange } from "./token-file.ts";
import { tokenize } from "./tokenize.ts";
import { checkVocabulary } from "./vocabulary.ts";
import { type SampleOptions, writeSamples } from "./write-samples.ts";

export interface PrepareOptions {
  readonly tokenizer: TextTokenizer;
  /** Of the model: every id is below it. */
  readonly vocabularySize: number;
  readonly textField: string;
  /** Inputs of a row, which conversations are cut at. Undefined: not known yet, and there must be none. */
  readonly seqLength?: number;
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
  /** Of text; instruction data have samples instead. */
  readonly ranges: readonly TokenRange[];
  readonly samples?: SampleRange;
  readonly tokens: number;
}

/** What is trained on: windows of text, or conversations and completions, of which answers alone are learned. */
export type DataKind = "text" | "instructions";

export interface PreparedData {
  readonly kind: DataKind;
  readonly sources: readonly PreparedSource[];
  /** Held out, or named apart; undefined where there is no validation. */
  readonly validation?: readonly PreparedSource[];
  /** Every file that is read. */
  readonly inputs: readonly string[];
  /** What a user should be told of the data. */
  readonly notices: readonly string[];
}

/** Checks all data once, turning what is not tokens yet into cached files of tokens or samples. @throws DataError, UsageError */
export async function prepareData(args: readonly string[], options: PrepareOptions): Promise<PreparedData> {
  if (options.tokenizer !== byteTokenizer) checkVocabulary(options.tokenizer, options.vocabularySize);
  const sources: PreparedSource[] = [];
  const notices: string[] = [];
  const inputs: string[] = [];
  const found = await findSources(args);
  const kind = await kindOf(found, options);
  for (const source of found) {
    const { name, weight } = source;
    sources.push({ name, weight, ...(await (kind === "text" ? prepareText : prepareSamples)(source, options)) });
    const notice = describeFindings(source.name, source.findings.list());
    if (notice !== undefined) notices.push(notice);
    inputs.push(...source.files.map(({ path }) => path));
  }
  return { kind, sources, inputs, notices };
}

/** What all files hold together. @throws DataError for both kinds at once, UsageError for conversations without a sequence length */
async function kindOf(sources: readonly DataSource[], { textField, seqLength }: PrepareOptions): Promise<DataKind> {
  const files = sources.flatMap((source) => source.files);
  const first: Partial<Record<DataKind, string>> = {};
  for (const file of files) {
    const isJsonl = file.format === "jsonl" || file.format === "parquet";
    if (isJsonl) await identify([file.path]); // what cannot be read again must not be read now
    const holds = isJsonl && (await holdsInstructions(file as DocumentFile, textField));
    first[holds ? "instructions" : "text"] ??= file.path;
  }
  const { text, instructions } = first;
  if (instructions === undefined) return "text";
  if (text !== undefined)
    throw new DataError(
      `${instructions} holds conversations or completions, and ${text} holds text: a run learns answers alone or all of a text; ` +
        "give one kind, or make text of the conversations",
    );
  if (seqLength === undefined)
    throw new UsageError(
      `${instructions} holds conversations or completions: name the model that learns from them with --model`,
    );
  return "instructions";
}

type PreparedPart = Pick<PreparedSource, "ranges" | "samples" | "tokens">;

async function prepareText(source: DataSource, options: PrepareOptions): Promise<PreparedPart> {
  const ranges: TokenRange[] = [];
  for (const group of groupsOf(source)) {
    const { range, findings } = await prepareGroup(source, group, options);
    ranges.push(range);
    source.findings.add(findings);
  }
  return { ranges, tokens: ranges.reduce((sum, { count }) => sum + count, 0) };
}

async function prepareSamples(source: DataSource, options: PrepareOptions): Promise<PreparedPart> {
  const { tokenizer } = options;
  const seqLength = options.seqLength!;
  const files = source.files as readonly DocumentFile[];
  const made = { seqLength, settings: tokenizer.settings ?? {} };
  const { entry, samples } = await cachedEntry(source, files, { options, made }, (handles, reading) =>
    writeSamples(...handles, { ...reading, tokenizer, files, seqLength }),
  );
  source.findings.add(entry.findings);
  return { ranges: [], samples: samples!, tokens: entry.tokens };
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
  const direct = await directRange(source, files[0]!, options);
  if (direct !== undefined) return { range: direct, findings: [] };
  const { tokenizer, textField } = options;
  const documents = files as readonly DocumentFile[];
  const { entry, range } = await cachedEntry(source, documents, { options, made: { textField } }, ([handle], reading) =>
    tokenize(handle, { ...reading, tokenizer, files: documents, textField }),
  );
  return { range, findings: entry.findings };
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

type Reading = Pick<SampleOptions, "encoders" | "findings" | "isSearched" | "onRead">;
type Fill = (handles: [tokens: FileHandle, samples: FileHandle], reading: Reading) => Promise<CachedTokens>;

/** What the cache has of these files, or what `fill` makes of them. @param made what else it depends on */
async function cachedEntry(
  { name, isSearched }: DataSource,
  files: readonly DocumentFile[],
  { options, made }: { readonly options: PrepareOptions; readonly made: object },
  fill: Fill,
): Promise<CacheEntry> {
  const { tokenizer, vocabularySize } = options;
  const cache = new TokenCache(options.cacheFolder);
  const paths = files.map(({ path }) => path);
  const identities = await identify(paths);
  const { name: tokenizerName, vocabularySize: entries, endOfText } = tokenizer;
  const tokenizerFiles = await identify(options.tokenizerFiles ?? []);
  const key = {
    tokenizer: { name: tokenizerName, entries, endOfText, files: tokenizerFiles },
    ...{ ...made, isSearched, files: identities },
  };
  const onRead = progressOf(identities, (readBytes, allBytes) => options.onProgress?.(name, readBytes, allBytes));
  const entryName = cache.nameOf(key);
  const found =
    (await cache.find(entryName)) ??
    (await cache.make(entryName, async (...handles) => {
      await using encoders = encodersFor(options, bytesOf(identities));
      const filled = await fill(handles, { encoders, findings: new Findings(), isSearched, onRead });
      await checkUnchanged(paths, identities);
      return filled;
    }));
  if (found.entry.largestId >= vocabularySize)
    throw new DataError(
      `${name} has token id ${found.entry.largestId}; wanted ids below ${vocabularySize}, the model's vocabulary: use the model that ` +
        "the tokens were made for, or a larger vocabulary",
    );
  return found;
}

/** A worker takes a third of a second to start, in which one thread encodes about as much. */
const bytesPerWorker = 1 << 22;

function encodersFor({ tokenizer, tokenizerModule }: PrepareOptions, bytes: number): Encoders {
  const workers = Math.min(availableParallelism(), Math.floor(bytes / bytesPerWorker));
  return tokenizerModule === undefined || workers < 2
    ? inThisThread(tokenizer)
    : new WorkerEncoders(tokenizerModule, workers);
}
