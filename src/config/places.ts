/** Offsets in a text as lines and columns (both from 1), and the line itself with a caret, to show in a message. */

import { unprintable } from "../errors/printable.ts";

/** Longer lines are shown around the caret only; with what stands before them, they fit a terminal of 80 columns. */
const maxShown = 74;
const maxIndent = 1000;

export class Places {
  readonly #text: string;
  readonly #lineStarts: number[] = [0];

  constructor(text: string) {
    this.#text = text;
    for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) this.#lineStarts.push(at + 1);
  }

  of(offset: number): { line: number; column: number } {
    let low = 0;
    let high = this.#lineStarts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#lineStarts[middle]! <= offset) low = middle;
      else high = middle;
    }
    return { line: low + 1, column: offset - this.#lineStarts[low]! + 1 };
  }

  /** Characters of white space at the start of the line of `offset`. */
  indent(offset: number): number {
    const start = this.#lineStarts[this.of(offset).line - 1]!;
    return /^[ \t]*/.exec(this.#text.slice(start, start + maxIndent))![0].length;
  }

  excerptAt(line: number, column: number): string {
    return this.excerpt(this.#lineStarts[line - 1]! + column - 1);
  }

  /** Two lines: the text's line, and a caret under the character at `offset`. */
  excerpt(offset: number): string {
    const start = this.#lineStarts[this.of(offset).line - 1]!;
    const from = offset - start < maxShown - 10 ? start : offset - maxShown / 2;
    const cut = this.#text.slice(from, from + maxShown);
    // Each odd character becomes one space, so that the caret stays under its place.
    const shown = (/^[^\r\n]*/.exec(cut)?.[0] ?? "").replace(unprintable, " ");
    return `${shown.trimEnd()}\n${" ".repeat(offset - from)}^`;
  }
}
