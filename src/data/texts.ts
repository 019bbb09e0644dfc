/** The texts that `--data` names, one after the other: for what learns from text and not from tokens. */

import { DataError, UsageError } from "../errors/errors.ts";
import { type DocumentFile, documentsOf } from "./documents.ts";
import { checkUnchanged, identify, progressOf } from "./file-identity.ts";
import { describeFindings } from "./findings.ts";
import { piecesOf } from "./pieces.ts";
import { type DataSource, findSources, type SourceFile } from "./source-files.ts";

export interface TextOptions {
  readonly textField: string;
  /** Characters of a document that are told at once. */
  readonly longest: number;
  /** A document, or a piece of a long one. */
  readonly onText: (text: string) => void;
  /** Told while files are read: bytes read of all bytes of this source. */
  readonly onProgress?: (name: string, readBytes: number, allBytes: number) => void;
}

/** @returns what a user should be told of the data @throws UsageError for a weight, DataError for what is no text or cannot be read */
export async function readTexts(args: readonly string[], options: TextOptions): Promise<string[]> {
  const sources = await findSources(args);
  for (const source of sources) checkTexts(source);
  // Before the first is read, since reading takes long.
  for (const { files } of sources) await identify(files.map(({ path }) => path));
  const notices: string[] = [];
  for (const source of sources) {
    await readSource(source, options);
    const notice = describeFindings(source.name, source.findings.list());
    if (notice !== undefined) notices.push(notice);
  }
  return notices;
}

async function readSource({ name, files, isSearched, findings }: DataSource, options: TextOptions): Promise<void> {
  const paths = files.map(({ path }) => path);
  const identities = await identify(paths);
  const onRead = progressOf(identities, (readBytes, allBytes) => options.onProgress?.(name, readBytes, allBytes));
  const reading = { textField: options.textField, isSearched, findings, onRead };
  for (const file of files) {
    for await (const { text } of piecesOf(documentsOf(file as DocumentFile, reading), options.longest))
      options.onText(text);
  }
  await checkUnchanged(paths, identities);
}

function checkTexts({ name, weight, files }: DataSource): void {
  if (weight !== undefined)
    throw new UsageError(
      `--data: ${name} has a weight, and weights are for training a model; here every text is read once: leave :${weight} out`,
    );
  const tokens: SourceFile | undefined = files.find(({ format }) => format === "tokens");
  if (tokens !== undefined)
    throw new DataError(`${tokens.path} holds token ids; wanted text, JSONL or Parquet, which the tokens were made of`);
}
