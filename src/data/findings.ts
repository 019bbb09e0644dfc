/** What was odd in the data: counted by kind, with the first places, so that nothing is left out silently. docs/data.md has the rule. */

/** What becomes of a text in which something was found. */
type Fate = "leftOut" | "kept";

interface Kind {
  readonly fate: Fate;
  readonly one: string;
  readonly many: string;
}

const kinds = {
  blankLine: { fate: "leftOut", one: "blank line", many: "blank lines" },
  notJson: { fate: "leftOut", one: "line that is not JSON", many: "lines that are not JSON" },
  notObject: { fate: "leftOut", one: "line that is not a JSON object", many: "lines that are not JSON objects" },
  cutOff: { fate: "leftOut", one: "last line that is cut off", many: "last lines that are cut off" },
  notUtf8: { fate: "leftOut", one: "record that is not UTF-8", many: "records that are not UTF-8" },
  tooLong: { fate: "leftOut", one: "line that is too long", many: "lines that are too long" },
  noField: { fate: "leftOut", one: "document without the text field", many: "documents without the text field" },
  notText: { fate: "leftOut", one: "document whose text is none", many: "documents whose text is none" },
  emptyText: { fate: "leftOut", one: "document whose text is empty", many: "documents whose text is empty" },
  noInstruction: {
    fate: "leftOut",
    one: "record without messages, or prompt and completion",
    many: "records without messages, or prompt and completion",
  },
  notMessages: { fate: "leftOut", one: "record of another form", many: "records of another form" },
  unknownRole: { fate: "leftOut", one: "conversation with an unknown role", many: "conversations with unknown roles" },
  hasTools: { fate: "leftOut", one: "conversation with tools", many: "conversations with tools" },
  noAnswer: { fate: "leftOut", one: "conversation without an answer", many: "conversations without an answer" },
  emptyAnswer: { fate: "leftOut", one: "record with an empty answer", many: "records with an empty answer" },
  refused: {
    fate: "leftOut",
    one: "conversation that the chat template refuses",
    many: "conversations that the chat template refuses",
  },
  cutAnswers: {
    fate: "leftOut",
    one: "conversation whose answers begin after the sequence length",
    many: "conversations whose answers begin after the sequence length",
  },
  emptyFile: { fate: "leftOut", one: "empty file", many: "empty files" },
  otherFile: { fate: "leftOut", one: "file of another kind", many: "files of other kinds" },
  cutConversation: {
    fate: "kept",
    one: "conversation longer than the sequence length (cut at its end)",
    many: "conversations longer than the sequence length (cut at their ends)",
  },
  alsoInstruction: {
    fate: "kept",
    one: "document with messages, or prompt and completion, beside its text (the text alone is read)",
    many: "documents with messages, or prompt and completion, beside their text (the text alone is read)",
  },
  byteOrderMark: { fate: "kept", one: "byte order mark (left out)", many: "byte order marks (left out)" },
  windowsLineEnd: { fate: "kept", one: "line end \\r\\n (read as \\n)", many: "line ends \\r\\n (read as \\n)" },
  loneReturn: { fate: "kept", one: "\\r without \\n (kept)", many: "\\r without \\n (kept)" },
  nul: { fate: "kept", one: "NUL byte (kept)", many: "NUL bytes (kept)" },
  nulBlock: {
    fate: "kept",
    one: "block of NUL bytes (kept; the file looks damaged)",
    many: "blocks of NUL bytes (kept; the files look damaged)",
  },
  halfCharacter: {
    fate: "kept",
    one: "document with half of a surrogate pair (read as U+FFFD)",
    many: "documents with half of a surrogate pair (read as U+FFFD)",
  },
} as const satisfies Record<string, Kind>;
export type FindingKind = keyof typeof kinds;

export interface Finding {
  readonly kind: FindingKind;
  readonly count: number;
  /** Of the first few. */
  readonly places: readonly string[];
}

const mostPlaces = 3;

export class Findings {
  readonly #found = new Map<FindingKind, { count: number; places: string[] }>();

  /** @param place such as "a.jsonl:17" or "a.jsonl:17: a number" @param count how often, there */
  note(kind: FindingKind, place: string, count = 1): void {
    const entry = this.#found.get(kind) ?? { count: 0, places: [] };
    entry.count += count;
    if (entry.places.length < mostPlaces) entry.places.push(place);
    this.#found.set(kind, entry);
  }

  /** What others found. */
  add(findings: readonly Finding[]): void {
    for (const { kind, count, places } of findings)
      for (const [i, place] of places.entries()) this.note(kind, place, i === 0 ? count - places.length + 1 : 1);
  }

  /** In the order of the table, so that equal data give equal reports. */
  list(): Finding[] {
    const order = Object.keys(kinds) as FindingKind[];
    return order.flatMap((kind) => {
      const entry = this.#found.get(kind);
      return entry === undefined ? [] : [{ kind, ...entry }];
    });
  }
}

/** One notice for the data of one source. @param name of the source @returns undefined where nothing was found */
export function describeFindings(name: string, findings: readonly Finding[]): string | undefined {
  if (findings.length === 0) return undefined;
  const lines = findings.map(({ kind, count, places }) => {
    const { fate, one, many } = kinds[kind];
    const more = count > places.length && places.length === mostPlaces ? ", ..." : "";
    const what = `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;
    return `\n  ${fate === "leftOut" ? "left out: " : ""}${what}: ${places.join(", ")}${more}`;
  });
  return `odd data in ${name}:${lines.join("")}`;
}
