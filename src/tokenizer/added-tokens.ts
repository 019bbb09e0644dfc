/** Tokens that are found in a text before it is cut into words: the end of a text, the marks of a conversation. */

export interface AddedToken {
  readonly id: number;
  readonly content: string;
  readonly special?: boolean;
  /** Looked for after normalization; left out: where it is not special. */
  readonly normalized?: boolean;
  /** These take space around it, or want it to stand alone. */
  readonly lstrip?: boolean;
  readonly rstrip?: boolean;
  readonly single_word?: boolean;
}

export interface AddedPlace {
  readonly at: number;
  readonly length: number;
  readonly id: number;
}

export class AddedTokens {
  readonly #ids: ReadonlyMap<string, number>;
  /** Undefined where there are none. */
  readonly #pattern: RegExp | undefined;
  readonly #isPlain: boolean;

  /** @param isNormalized whether texts are, before their words are found */
  constructor(tokens: readonly AddedToken[], isNormalized: boolean) {
    const some = tokens.filter(({ content }) => content !== "");
    this.#ids = new Map(some.map(({ content, id }) => [content, id]));
    // Of those that begin at the same place the longest is meant.
    const contents = [...this.#ids.keys()].sort((a, b) => b.length - a.length);
    const alternatives = contents.map((content) => content.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
    this.#pattern = some.length === 0 ? undefined : new RegExp(alternatives.join("|"), "gu");
    this.#isPlain = some.every(
      ({ lstrip, rstrip, single_word, special = false, normalized = !special }) =>
        !lstrip && !rstrip && !single_word && !(isNormalized && normalized),
    );
  }

  /** Where they are, in order; undefined where they are of a kind that the library has to look at. */
  find(text: string): readonly AddedPlace[] | undefined {
    if (this.#pattern === undefined) return [];
    // A token that is looked for after normalization may appear with it.
    if (!this.#isPlain)
      return [text, text.normalize("NFC")].some((t) => t.search(this.#pattern!) !== -1) ? undefined : [];
    const places: AddedPlace[] = [];
    for (const { 0: token, index: at } of text.matchAll(this.#pattern))
      places.push({ at, length: token.length, id: this.#ids.get(token)! });
    return places;
  }
}
