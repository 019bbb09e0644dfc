/** The text of one record: a line of JSONL, or a row of a table. (Those with messages are read in instructions.ts.) */

import type { FindingKind, Findings } from "./findings.ts";

/** Why a record has no text. */
export interface Problem {
  readonly kind: FindingKind;
  /** What was found, for the list of places. */
  readonly detail?: string;
  /** The same as a clause. */
  readonly reason?: string;
}

/** What is made of the records of a file. */
export interface RecordReader<T> {
  /** @param place where the record is */
  read(value: unknown, place: string): T | Problem;
  /** What a file without any of it has not got. */
  readonly wanted: string;
  /** What to do about it. */
  readonly advice: string;
}

export function isProblem(read: unknown): read is Problem {
  return typeof read === "object" && read !== null && "kind" in read;
}

/** @param value the record @param place where it is @returns its text, or what is wrong with it */
export function textOf(value: unknown, textField: string, place: string, findings: Findings): string | Problem {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    const detail = nameType(value);
    return { kind: "notObject", detail, reason: `${detail} where an object is wanted` };
  }
  if (!Object.hasOwn(value, textField)) {
    const fields = Object.keys(value).slice(0, 8);
    const found = fields.length === 0 ? "an object without fields" : `an object with the fields ${fields.join(", ")}`;
    const isOther = Object.hasOwn(value, "conversations"); // ShareGPT's form
    const reason = isOther ? `${found} (conversations are read from "messages", a list of { role, content })` : found;
    return { kind: "noField", reason };
  }
  const text = (value as Record<string, unknown>)[textField];
  if (typeof text !== "string") {
    const detail = nameType(text);
    return { kind: "notText", detail, reason: `${detail} where text is wanted` };
  }
  if (text === "") return { kind: "emptyText", reason: "an empty text" };
  if (/\p{Surrogate}/u.test(text)) findings.note("halfCharacter", place);
  return text;
}

export function nameType(value: unknown): string {
  if (value === null) return "null";
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "symbol") return "bytes that are not UTF-8"; // of a table
  return typeof value === "object" ? "an object" : typeof value === "boolean" ? "true or false" : `a ${typeof value}`;
}
