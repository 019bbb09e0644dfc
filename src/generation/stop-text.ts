/** Stop strings over a text that comes in pieces: nothing of one is ever passed on, wherever tokens begin and end. */
import { UsageError } from "../errors/errors.ts";

export class StopText {
  readonly #stops: readonly string[];
  /** What came and may be the beginning of a stop string. */
  #held = "";
  #found = false;

  /** @throws UsageError for an empty stop string */
  constructor(stops: readonly string[]) {
    if (stops.includes(""))
      throw new UsageError("a stop string is empty; give at least one character, or leave it out");
    this.#stops = stops;
  }

  /** Whether a stop string has come. */
  get found(): boolean {
    return this.#found;
  }

  /** @returns the text that this piece makes certain, up to the first stop string */
  push(piece: string): string {
    if (this.#found) return "";
    const text = this.#held + piece;
    const first = this.#firstComplete(text);
    this.#found = first !== undefined;
    const end = first ?? text.length - this.#beginningLength(text);
    this.#held = this.#found ? "" : text.slice(end);
    return text.slice(0, end);
  }

  /** The text is over: what was held back was no stop string. */
  end(): string {
    const held = this.#held;
    this.#held = "";
    return held;
  }

  /** Where the stop string begins that is complete first: which one that is does not depend on how the text is cut. */
  #firstComplete(text: string): number | undefined {
    const found = this.#stops.flatMap((stop) => {
      const start = text.indexOf(stop);
      return start < 0 ? [] : [{ start, end: start + stop.length }];
    });
    return found.sort((a, b) => a.end - b.end || a.start - b.start)[0]?.start;
  }

  /** Length of the longest end of `text` that begins a stop string. */
  #beginningLength(text: string): number {
    const longest = Math.max(0, ...this.#stops.map((stop) => stop.length - 1));
    for (let length = Math.min(longest, text.length); length > 0; length--) {
      const end = text.slice(text.length - length);
      if (this.#stops.some((stop) => stop.startsWith(end))) return length;
    }
    return 0;
  }
}
