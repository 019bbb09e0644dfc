/** How often each word occurs in a text of any size, in bounded memory. */

import { ownCopy } from "./own-copy.ts";
import { wordsOf } from "./pattern.ts";

/** A few hundred bytes each; a JavaScript map ends at 2^24 entries. */
const mostWords = 4_000_000;

export class WordCounts {
  readonly counts = new Map<string, number>();
  /** Occurrences that were dropped with the rarest words, to stay within bounds. */
  droppedOccurrences = 0;
  readonly #mostWords: number;
  /** Words at most this frequent were dropped so far; the bound rises until half of the room is free. */
  #dropped = 0;

  constructor(options: { readonly mostWords?: number } = {}) {
    this.#mostWords = options.mostWords ?? mostWords;
  }

  add(text: string): void {
    for (const word of wordsOf(text)) {
      const count = this.counts.get(word);
      if (count === undefined) this.counts.set(ownCopy(word), 1);
      else this.counts.set(word, count + 1);
    }
    while (this.counts.size > this.#mostWords) this.#dropRarest();
  }

  #dropRarest(): void {
    this.#dropped++;
    for (const [word, count] of this.counts) {
      if (count > this.#dropped) continue;
      this.counts.delete(word);
      this.droppedOccurrences += count;
    }
  }
}
