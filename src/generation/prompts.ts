/** Prompts of a JSONL file: one object a line with a `prompt`. Odd lines are left out and reported as odd data are (docs/data.md). */
import { existsSync } from "node:fs";
import { fileBytes } from "../data/file-bytes.ts";
import { describeFindings, Findings } from "../data/findings.ts";
import { longestLineBytes, textOfLine } from "../data/jsonl-documents.ts";
import { linesOf } from "../data/lines.ts";
import { DataError } from "../errors/errors.ts";

const promptField = "prompt";

/** @param onOdd is told at the end what was odd @throws DataError where no line has a prompt */
export async function* jsonlPrompts(
  name: string,
  chunks: AsyncIterable<Buffer>,
  onOdd: (notice: string) => void,
): AsyncGenerator<string> {
  const findings = new Findings();
  let count = 0;
  for await (const line of linesOf(chunks, longestLineBytes)) {
    const place = `${name}:${line.number}`;
    const text = textOfLine(line, promptField, place, findings);
    if (typeof text === "string") {
      count++;
      yield text;
    } else findings.note(text.kind, text.detail === undefined ? place : `${place} (${text.detail})`);
  }
  const odd = describeFindings(name, findings.list());
  if (count === 0)
    throw new DataError(
      `${name} has no prompt; wanted one JSON object a line, such as {"prompt": "Once upon a time"}${odd === undefined ? "" : `\n${odd}`}`,
    );
  if (odd !== undefined) onOdd(odd);
}

/** Of a file, unpacked where its name says that it is packed, or of the standard input. */
export function promptBytes(path: string): AsyncIterable<Buffer> {
  if (path === "-") return process.stdin;
  if (!existsSync(path)) throw new DataError(`${path}: no such file; check --jsonl`);
  const packing = path.endsWith(".gz") ? "gzip" : path.endsWith(".zst") ? "zstd" : "none";
  return fileBytes({ path, packing });
}
