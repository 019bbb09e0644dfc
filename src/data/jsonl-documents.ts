/** Documents of a JSONL file: one JSON object a line, its text in one field. A bad line costs that line and is counted. */

import { isUtf8 } from "node:buffer";
import { DataError } from "../errors/errors.ts";
import type { DocumentPiece, ReadOptions } from "./documents.ts";
import { EmptyFileError, fileBytes } from "./file-bytes.ts";
import type { Findings } from "./findings.ts";
import { type Line, linesOf } from "./lines.ts";
import { type Problem, textOf } from "./record-text.ts";
import type { SourceFile } from "./source-files.ts";

/** Half of the longest string that V8 makes. */
export const longestLineBytes = 1 << 28;

/** @throws DataError where no line has a text */
export async function* jsonlDocuments(file: SourceFile, options: ReadOptions): AsyncGenerator<DocumentPiece> {
  const { findings, textField } = options;
  let isEmpty = true;
  let documents = 0;
  let firstProblem = "";
  for await (const line of linesOf(fileBytes(file, options.onRead), longestLineBytes)) {
    isEmpty = false;
    const place = `${file.path}:${line.number}`;
    const text = textOfLine(line, textField, place, options.findings);
    if (typeof text === "string") {
      documents++;
      yield { text, file: file.path, line: line.number, isLast: true };
      continue;
    }
    findings.note(text.kind, text.detail === undefined ? place : `${place} (${text.detail})`);
    if (text.kind !== "blankLine")
      firstProblem ||= `; the first problem: ${text.reason ?? text.kind}, in line ${line.number}`;
  }
  if (documents > 0) return;
  if (isEmpty) throw new EmptyFileError(`${file.path} is empty; wanted JSONL`);
  throw new DataError(
    `${file.path} has no document with a text in field "${textField}"${firstProblem}; name the field with --text-field`,
  );
}

/** @param place of the line @returns its text, or what is wrong with it, which is not noted yet */
export function textOfLine(line: Line, textField: string, place: string, findings: Findings): string | Problem {
  if (line.bytes === undefined) return { kind: "tooLong", reason: `a line above ${longestLineBytes} bytes` };
  let { bytes } = line;
  if (line.number === 1 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) {
    findings.note("byteOrderMark", place);
    bytes = bytes.subarray(3);
  }
  if (!isUtf8(bytes)) return { kind: "notUtf8", reason: "a line that is not UTF-8" };
  const source = bytes.toString();
  if (source.trim() === "") return { kind: "blankLine" };
  let value: unknown;
  try {
    value = JSON.parse(source);
  } catch (error) {
    if (!line.isEnded) return { kind: "cutOff", reason: "a last line that is cut off" };
    const nul = bytes.includes(0) ? "NUL bytes" : undefined;
    return { kind: "notJson", ...(nul && { detail: nul }), reason: (error as Error).message };
  }
  return textOf(value, textField, place, findings);
}
