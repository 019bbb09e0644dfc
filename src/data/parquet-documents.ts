/** Records of a Parquet file: a row is one, of some columns. One row group's columns are in memory at a time. */

import { isUtf8 } from "node:buffer";
import {
  asyncBufferFromFile,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
} from "hyparquet";
import { compressors } from "hyparquet-compressors";
import { DataError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import type { DocumentPiece, ReadOptions } from "./documents.ts";
import { EmptyFileError } from "./file-bytes.ts";
import { isInstruction } from "./instructions.ts";
import { isProblem, type RecordReader, textOf } from "./record-text.ts";
import type { SourceFile } from "./source-files.ts";

/** In place of a string whose bytes are not UTF-8: the library's own reader would put U+FFFD and say nothing. */
const notUtf8 = Symbol("not UTF-8");

const parsers = {
  stringFromBytes: (bytes: Uint8Array | undefined): unknown => {
    if (bytes === undefined) return undefined;
    return isUtf8(bytes) ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString() : notUtf8;
  },
};

/** The text in one column of each row. @throws DataError where the file is damaged, has no such column, or no row with a text */
export async function* parquetDocuments(file: SourceFile, options: ReadOptions): AsyncGenerator<DocumentPiece> {
  const { findings, textField } = options;
  const reader: RecordReader<string> = {
    read: (value, place) =>
      (value as Record<string, unknown>)[textField] === notUtf8
        ? { kind: "notUtf8" }
        : textOf(value, textField, place, findings),
    wanted: `row with a text in column "${textField}"`,
    advice: "see --text-field",
  };
  const columnsOf = (metadata: FileMetaData): readonly string[] => {
    checkColumn(file.path, metadata, textField);
    const names = parquetSchema(metadata).children.map(({ element }) => [element.name, null] as const);
    if (isInstruction(Object.fromEntries(names)))
      findings.note("alsoInstruction", file.path, Number(metadata.num_rows));
    return [textField];
  };
  for await (const { record, line } of parquetRecords(file, options, columnsOf, reader))
    yield { text: record, file: file.path, line, isLast: true };
}

/** Those of a table, as they are; none of an empty file. @throws DataError where the file is damaged */
export async function parquetColumns(file: SourceFile): Promise<readonly string[]> {
  const { path } = file;
  const buffer = await openBuffer(path);
  if (buffer.byteLength === 0) return [];
  const metadata = await guard(path, () => parquetMetadataAsync(buffer, { parsers }));
  return parquetSchema(metadata).children.map(({ element }) => element.name);
}

/** What `reader` makes of each row; rows that it makes nothing of go to the findings. @throws DataError where all do */
export async function* parquetRecords<T>(
  { path }: SourceFile,
  { findings, onRead }: Pick<ReadOptions, "findings" | "onRead">,
  columnsOf: (metadata: FileMetaData) => readonly string[],
  reader: RecordReader<T>,
): AsyncGenerator<{ readonly record: T; readonly line: number }> {
  const buffer = await openBuffer(path);
  if (buffer.byteLength === 0) throw new EmptyFileError(`${path} is empty; wanted Parquet`);
  const metadata = await guard(path, () => parquetMetadataAsync(buffer, { parsers }));
  const columns = [...columnsOf(metadata)];
  let records = 0;
  let row = 0;
  for (const group of metadata.row_groups) {
    const end = row + Number(group.num_rows);
    const range = { rowStart: row, rowEnd: end, columns };
    const rows = await guard(path, () =>
      parquetReadObjects({ file: buffer, metadata, compressors, parsers, ...range }),
    );
    for (const value of rows) {
      const place = `${path}:${++row}`;
      const record = reader.read(value, place);
      if (!isProblem(record)) {
        records++;
        yield { record, line: row };
      } else findings.note(record.kind, record.detail === undefined ? place : `${place} (${record.detail})`);
    }
    onRead(Math.floor(buffer.byteLength / metadata.row_groups.length));
  }
  if (row === 0) throw new EmptyFileError(`${path} has no rows; wanted documents`);
  if (records === 0) throw new DataError(`${path} has no ${reader.wanted}: ${reader.advice}`);
}

function openBuffer(path: string): ReturnType<typeof asyncBufferFromFile> {
  return asyncBufferFromFile(path).catch((error: NodeJS.ErrnoException) => {
    throw new DataError(`${path}: ${reasonOf(error)}; check --data`);
  });
}

function checkColumn(path: string, metadata: FileMetaData, textField: string): void {
  const columns = parquetSchema(metadata).children;
  const column = columns.find(({ element }) => element.name === textField);
  const isText = column?.children.length === 0 && column.element.type === "BYTE_ARRAY";
  if (isText) return;
  const found = column === undefined ? `no column "${textField}"` : `a column "${textField}" that is not text`;
  const names = columns.map(({ element }) => element.name).join(", ");
  throw new DataError(`${path} has ${found}; its columns are ${names}: name the one with the text with --text-field`);
}

/** The library throws plain errors for whatever is not as it should be. */
async function guard<T>(path: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const { message } = error as Error;
    throw new DataError(`${path} cannot be read as Parquet: ${message}; it is damaged, or not a Parquet file`, {
      cause: error,
    });
  }
}
