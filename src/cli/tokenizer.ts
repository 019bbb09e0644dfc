/** `shunya tokenizer encode|decode|show`: small helpers for people. */
import { text as readAll } from "node:stream/consumers";
import { UsageError } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";
import { formatCount } from "../report/numbers.ts";
import { renderTable } from "../report/table.ts";
import { tokenBytes } from "../tokenizer/byte-level.ts";
import { byteTokenizer, type EncodeOptions, openTokenizer, type Tokenizer } from "../tokenizer/tokenizer.ts";

interface TextOptions {
  readonly tokenizer?: string;
  readonly addSpecialTokens?: true;
}

/** What of the flags is the tokenizer's to read. */
const encodeOptions = ({ addSpecialTokens }: TextOptions): EncodeOptions => ({
  addSpecialTokens: addSpecialTokens === true,
});

const write = (text: string): void => void process.stdout.write(text);

function open({ tokenizer }: TextOptions): Promise<Tokenizer> | Tokenizer {
  return tokenizer === undefined ? byteTokenizer : openTokenizer(tokenizer);
}

/** Ids with a space between them, on one line. */
export async function runEncode(given: string | undefined, options: TextOptions): Promise<void> {
  const tokenizer = await open(options);
  const ids = tokenizer.encode(given ?? (await readAll(process.stdin)), encodeOptions(options));
  write(`${ids.join(" ")}\n`);
}

/** Exactly the text, without a line end of our own where it goes to a file or a pipe. */
export async function runDecode(given: readonly string[], options: TextOptions): Promise<void> {
  const tokenizer = await open(options);
  const ids = parseIds(given.length === 0 ? await readAll(process.stdin) : given.join(" "));
  write(tokenizer.decode(ids) + (process.stdout.isTTY ? "\n" : ""));
}

export async function runShow(text: string | undefined, options: TextOptions): Promise<void> {
  const tokenizer = await open(options);
  const { endOfText } = tokenizer;
  write(`${tokenizer.name}: ${formatCount(tokenizer.vocabularySize)} tokens, `);
  write(endOfText === undefined ? "no end of text\n" : `end of text ${tokenizer.tokenOf(endOfText)} (${endOfText})\n`);
  if (text === undefined) return;
  const ids = [...tokenizer.encode(text, encodeOptions(options))];
  const bytes = Buffer.byteLength(text);
  const columns = [
    { header: "id", align: "right" },
    { header: "piece", align: "left" },
  ] as const;
  write(`\n${renderTable({ columns, rows: ids.map((id) => [String(id), pieceOf(tokenizer, id)]) })}\n\n`);
  const perToken = ids.length === 0 ? "" : `, ${(bytes / ids.length).toFixed(2)} bytes per token`;
  write(`${formatCount(bytes)} bytes, ${formatCount(ids.length)} tokens${perToken}\n`);
}

/** A piece as text where it is whole characters, else as its bytes. */
function pieceOf(tokenizer: Tokenizer, id: number): string {
  const token = tokenizer.tokenOf(id)!;
  const text = tokenizer.decode([id]);
  if (!text.includes("\uFFFD")) return JSON.stringify(printable(text));
  const bytes = tokenBytes(token);
  return bytes === undefined
    ? printable(token)
    : [...bytes].map((b) => `0x${b.toString(16).padStart(2, "0")}`).join(" ");
}

/** @throws UsageError for anything that is not a whole number */
function parseIds(text: string): number[] {
  const words = text.split(/[\s,]+/).filter((word) => word !== "");
  const odd = words.find((word) => !/^[0-9]{1,15}$/.test(word));
  if (odd !== undefined)
    throw new UsageError(`found ${printable(JSON.stringify(odd))} among the ids; wanted whole numbers`);
  return words.map(Number);
}
