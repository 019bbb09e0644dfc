/** Documents of a Parquet file: a row is a document, its text in one column. One row group's column is in memory at a time. */

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
import type { DocumentPiece, ReadOptions } from "./documents.ts";
import { EmptyFileError } from "./file-bytes.ts";
import { textOf } from "./record-text.ts";
import type { SourceFile } from "./source-files.ts";

/** In place of a string whose bytes are not UTF-8: the library's own reader would put U+FFFD and say nothing. */
const notUtf8 = Symbol("not UTF-8");

const parsers = {
  stringFromBytes: (bytes: Uint8Array | undefined): unknown => {
    if (bytes === undefined) return undefined;
    return isUtf8(bytes) ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString() : notUtf8;
  },
};

/** @throws DataError where the file is damaged, has no such column, or no row with a text */
export async function* parquetDocuments(file: SourceFile, options: ReadOptions): AsyncGenerator<DocumentPiece> {
  const { path } = file;
  const { findings, onRead, textField } = options;
  const buffer = await asyncBufferFromFile(path).catch((error: NodeJS.ErrnoException) => {
    throw new DataError(`${path}: ${error.code === "ENOENT" ? "no such file" : error.message}; check --data`);
  });
  if (buffer.byteLength === 0) throw new EmptyFileError(`${path} is empty; wanted Parquet`);
  const metadata = await guard(path, () => parquetMetadataAsync(buffer, { parsers }));
  checkColumn(path, metadata, textField);
  let documents = 0;
  let row = 0;
  for (const group of metadata.row_groups) {
    const end = row + Number(group.num_rows);
    const range = { rowStart: row, rowEnd: end, columns: [textField] };
    const rows = await guard(path, () =>
      parquetReadObjects({ file: buffer, metadata, compressors, parsers, ...range }),
    );
    for (const record of rows) {
      const place = `${path}:${++row}`;
      const text = record[textField] === notUtf8 ? notUtf8 : textOf(record, textField, place, findings);
      if (typeof text === "string") {
        documents++;
        yield { text, file: path, line: row, isLast: true };
      } else if (text === notUtf8) findings.note("notUtf8", place);
      else findings.note(text.kind, text.detail === undefined ? place : `${place} (${text.detail})`);
    }
    onRead(Math.floor(buffer.byteLength / metadata.row_groups.length));
  }
  if (row === 0) throw new EmptyFileError(`${path} has no rows; wanted documents`);
  if (documents === 0) throw new DataError(`${path} has no row with a text in column "${textField}": see --text-field`);
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
