/** Which files hold conversations and prompts with completions, and their records in order. */

import { isUtf8 } from "node:buffer";
import { DataError } from "../errors/errors.ts";
import type { DocumentFile, ReadOptions } from "./documents.ts";
import { EmptyFileError, fileBytes } from "./file-bytes.ts";
import { holdsInstruction, type Instruction, instructionFields, instructionOf } from "./instructions.ts";
import { jsonlRecords, longestLineBytes } from "./jsonl-documents.ts";
import { linesOf } from "./lines.ts";
import type { RecordReader } from "./record-text.ts";

export interface PlacedInstruction {
  readonly instruction: Instruction;
  readonly file: string;
  /** Line, or row of a table, from 1. */
  readonly line: number;
}

/** Lines in which a record of a known form is looked for. */
const mostLines = 1000;

/** By the first records of a JSONL file, or the columns of a Parquet file. @throws DataError where it cannot be read */
export async function holdsInstructions(file: DocumentFile, textField: string): Promise<boolean> {
  if (file.format === "text") return false;
  if (file.format === "jsonl") {
    for await (const record of firstRecords(file)) {
      if (Object.hasOwn(record, textField)) return false;
      if (holdsInstruction(record, textField)) return true;
    }
    return false;
  }
  const { parquetColumns } = await import("./parquet-documents.ts");
  const columns = await parquetColumns(file);
  return holdsInstruction(Object.fromEntries(columns.map((column) => [column, null])), textField);
}

async function* firstRecords(file: DocumentFile): AsyncGenerator<object> {
  for await (const { bytes, number } of linesOf(fileBytes(file), longestLineBytes)) {
    if (number > mostLines) return;
    const value = bytes && isUtf8(bytes) ? parsed(bytes.toString()) : undefined;
    if (typeof value === "object" && value !== null && !Array.isArray(value)) yield value;
  }
}

function parsed(source: string): unknown {
  try {
    return JSON.parse(source.replace(/^\uFEFF/, ""));
  } catch {
    return undefined;
  }
}

/** A file's records in order, in constant memory; what is odd goes to the findings. @throws DataError where none is as it should be */
export async function* instructionsOf(
  file: DocumentFile,
  options: Omit<ReadOptions, "textField">,
): AsyncGenerator<PlacedInstruction> {
  const reader: RecordReader<Instruction> = {
    read: (value, place) => instructionOf(value, place, options.findings),
    wanted: "record to learn from",
    advice: `wanted "messages" (a list of { role, content }), or "prompt" and "completion"`,
  };
  try {
    for await (const { record, line } of recordsOf(file, options, reader))
      yield { instruction: record, file: file.path, line };
  } catch (error) {
    if (!(error instanceof EmptyFileError && options.isSearched)) throw error;
    options.findings.note("emptyFile", file.path);
  }
}

async function* recordsOf(
  file: DocumentFile,
  options: Omit<ReadOptions, "textField">,
  reader: RecordReader<Instruction>,
): ReturnType<typeof jsonlRecords<Instruction>> {
  if (file.format === "text") throw new DataError(`${file.path} is text; wanted JSONL or Parquet`);
  if (file.format === "jsonl") return yield* jsonlRecords(file, options, reader);
  const { parquetColumns, parquetRecords } = await import("./parquet-documents.ts");
  const there = await parquetColumns(file);
  const columns = [...instructionFields, "tools"].filter((field) => there.includes(field));
  yield* parquetRecords(file, options, () => columns, reader);
}
