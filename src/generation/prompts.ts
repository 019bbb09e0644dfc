/** Prompts of a JSONL file: one object a line with a `prompt`. Odd lines are left out and reported as odd data are (docs/data.md). */
import { existsSync } from "node:fs";
import { fileBytes } from "../data/file-bytes.ts";
import { describeFindings, Findings } from "../data/findings.ts";
import { recordsOf } from "../data/jsonl-documents.ts";
import { type RecordReader, textOf } from "../data/record-text.ts";
import { DataError } from "../errors/errors.ts";

/** @param onOdd is told at the end what was odd @throws DataError where no line has a prompt */
export async function* jsonlPrompts(
  name: string,
  chunks: AsyncIterable<Buffer>,
  onOdd: (notice: string) => void,
): AsyncGenerator<string> {
  const findings = new Findings();
  const reader: RecordReader<string> = {
    read: (value, place) => textOf(value, "prompt", place, findings),
    wanted: 'line with a text in field "prompt"',
    advice: 'write one JSON object a line, such as {"prompt": "Once upon a time"}',
  };
  for await (const { record } of recordsOf(name, chunks, findings, reader)) yield record;
  const odd = describeFindings(name, findings.list());
  if (odd !== undefined) onOdd(odd);
}

/** Of a file, unpacked where its name says that it is packed, or of the standard input. */
export function promptBytes(path: string): AsyncIterable<Buffer> {
  if (path === "-") return process.stdin;
  if (!existsSync(path)) throw new DataError(`${path}: no such file; check --jsonl`);
  const packing = path.endsWith(".gz") ? "gzip" : path.endsWith(".zst") ? "zstd" : "none";
  return fileBytes({ path, packing });
}
