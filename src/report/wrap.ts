/** Sentences for a terminal: no line is longer than a terminal is wide, but for words that are. */

/** Columns of the narrowest terminal that output is made for. */
export const terminalWidth = 80;

interface WrapOptions {
  /** Of the lines after the first, in columns. */
  readonly indent?: number;
  /** Columns of the first line that are taken already. */
  readonly first?: number;
  /** Columns of a line. */
  readonly width?: number;
}

export function wrap(text: string, { indent = 0, first = indent, width = terminalWidth }: WrapOptions = {}): string {
  if (first + text.length <= width) return text;
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const taken = lines.length === 0 ? first : indent;
    if (line !== "" && taken + line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line].join(`\n${" ".repeat(indent)}`);
}
