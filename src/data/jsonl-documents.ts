/** Records of a JSONL file: one JSON object a line. A bad line costs that line and is counted. */

import { isUtf8 } from "node:buffer";
import { DataError } from "../errors/errors.ts";
import type { DocumentPiece, ReadOptions } from "./documents.ts";
import { EmptyFileError, fileBytes } from "./file-bytes.ts";
import type { Findings } from "./findings.ts";
import { isInstruction } from "./instructions.ts";
import { type Line, linesOf } from "./lines.ts";
import { isProblem, type Problem, type RecordReader, textOf } from "./record-text.ts";
import type { SourceFile } from "./source-files.ts";

/** Half of the longest string that V8 makes. */
export const longestLineBytes = 1 << 28;

/** The text in one field of each line. @throws DataError where no line has a text */
export async function* jsonlDocuments(file: SourceFile, options: ReadOptions): AsyncGenerator<DocumentPiece> {
  const { findings, textField } = options;
  const reader: RecordReader<string> = {
    read: (value, place) => {
      const text = textOf(value, textField, place, findings);
      if (!isProblem(text) && isInstruction(value as object)) findings.note("alsoInstruction", place);
      return text;
    },
    wanted: `document with a text in field "${textField}"`,
    advice: "name the field with --text-field",
  };
  for await (const { record, line } of jsonlRecords(file, options, reader))
    yield { text: record, file: file.path, line, isLast: true };
}

/** What `reader` makes of each line; lines that it makes nothing of go to the findings. @throws DataError where all do */
export async function* jsonlRecords<T>(
  file: SourceFile,
  { findings, onRead }: Pick<ReadOptions, "findings" | "onRead">,
  reader: RecordReader<T>,
): AsyncGenerator<{ readonly record: T; readonly line: number }> {
  yield* recordsOf(file.path, fileBytes(file, onRead), findings, reader);
}

/** The same of bytes from anywhere. @param name for messages */
export async function* recordsOf<T>(
  name: string,
  bytes: AsyncIterable<Buffer>,
  findings: Findings,
  reader: RecordReader<T>,
): AsyncGenerator<{ readonly record: T; readonly line: number }> {
  let isEmpty = true;
  let records = 0;
  let firstProblem = "";
  for await (const line of linesOf(bytes, longestLineBytes)) {
    isEmpty = false;
    const place = `${name}:${line.number}`;
    const parsed = parseLine(line, place, findings);
    const record = isProblem(parsed) ? parsed : reader.read(parsed.value, place);
    if (!isProblem(record)) {
      records++;
      yield { record, line: line.number };
      continue;
    }
    findings.note(record.kind, record.detail === undefined ? place : `${place} (${record.detail})`);
    if (record.kind !== "blankLine")
      firstProblem ||= `; the first problem: ${record.reason ?? record.kind}, in line ${line.number}`;
  }
  if (records > 0) return;
  if (isEmpty) throw new EmptyFileError(`${name} is empty; wanted JSONL`);
  throw new DataError(`${name} has no ${reader.wanted}${firstProblem}; ${reader.advice}`);
}

function parseLine(line: Line, place: string, findings: Findings): { readonly value: unknown } | Problem {
  if (line.bytes === undefined) return { kind: "tooLong", reason: `a line above ${longestLineBytes} bytes` };
  let { bytes } = line;
  if (line.number === 1 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) {
    findings.note("byteOrderMark", place);
    bytes = bytes.subarray(3);
  }
  if (!isUtf8(bytes)) return { kind: "notUtf8", reason: "a line that is not UTF-8" };
  const source = bytes.toString();
  if (source.trim() === "") return { kind: "blankLine" };
  try {
    return { value: JSON.parse(source) };
  } catch (error) {
    if (!line.isEnded) return { kind: "cutOff", reason: "a last line that is cut off" };
    const nul = bytes.includes(0) ? "NUL bytes" : undefined;
    return { kind: "notJson", ...(nul && { detail: nul }), reason: (error as Error).message };
  }
}
