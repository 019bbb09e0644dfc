/** Documents of a file, whatever its format: what every reader gives, and which reader a format has. */

import { EmptyFileError } from "./file-bytes.ts";
import type { Findings } from "./findings.ts";
import { jsonlDocuments } from "./jsonl-documents.ts";
import type { SourceFile } from "./source-files.ts";
import { textDocuments } from "./text-documents.ts";

/** A document, or a piece of a long one. */
export interface DocumentPiece {
  readonly text: string;
  readonly file: string;
  /** Line, or row of a table, from 1, where it begins. */
  readonly line: number;
  /** The document ends with this piece. */
  readonly isLast: boolean;
}

export interface ReadOptions {
  /** That holds the text of a JSONL or Parquet document. */
  readonly textField: string;
  /** The file was found and not named: where it is empty it is left out, and not refused. */
  readonly isSearched: boolean;
  readonly findings: Findings;
  /** Told how many bytes of the file were read. */
  readonly onRead: (bytes: number) => void;
}

const readers = { text: textDocuments, jsonl: jsonlDocuments, parquet: lazyParquetDocuments } as const;

/** Loaded where it is needed: every rank's start would wait for the library. */
async function* lazyParquetDocuments(file: SourceFile, options: ReadOptions): AsyncGenerator<DocumentPiece> {
  const { parquetDocuments } = await import("./parquet-documents.ts");
  yield* parquetDocuments(file, options);
}

/** A file that holds documents. */
export type DocumentFile = SourceFile & { readonly format: keyof typeof readers };

/** A file's documents in order, in constant memory. What is odd goes to the findings; what is refused is a DataError. */
export async function* documentsOf(file: DocumentFile, options: ReadOptions): AsyncGenerator<DocumentPiece> {
  try {
    yield* readers[file.format](file, options);
  } catch (error) {
    if (!(error instanceof EmptyFileError && options.isSearched)) throw error;
    options.findings.note("emptyFile", file.path);
  }
}
