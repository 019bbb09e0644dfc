/**
 * Byte-pair encoding (Sennrich et al., 2016): again and again, the most frequent pair of neighbouring symbols becomes a symbol. Counts
 * are kept up to date where a merge changes words, so a merge costs what it changes and not the whole text. Ties go to the pair with
 * the smaller ids, as in Hugging Face's trainer, so that the same text gives the same merges there.
 */

import { PairHeap } from "./pair-heap.ts";

export interface Merge {
  readonly left: number;
  readonly right: number;
}

export interface MergedWords {
  /** In the order in which they were made, which is the order in which an encoder makes them. */
  readonly merges: readonly Merge[];
  /** Every symbol's text, by id. */
  readonly symbols: readonly string[];
  /** Tokens of the whole text under this vocabulary. */
  readonly tokens: number;
}

/** Ids stay below it, so that a pair is one exact number. */
const idLimit = 2 ** 26;

interface Word {
  symbols: number[];
  readonly count: number;
}

/**
 * Makes merges until there are `vocabularySize` symbols, or no pair occurs twice.
 * @param base text of the symbols that are there from the start, by id
 * @param counts words in characters of `base`, and how often each occurs
 */
export function learnMerges(
  base: readonly string[],
  counts: Iterable<readonly [word: string, count: number]>,
  vocabularySize: number,
): MergedWords {
  const learner = new Learner(base, counts);
  while (learner.symbols.length < vocabularySize && learner.mergeNext());
  return { merges: learner.merges, symbols: learner.symbols, tokens: learner.countTokens() };
}

class Learner {
  readonly merges: Merge[] = [];
  readonly symbols: string[];
  readonly #idOf: Map<string, number>;
  readonly #words: Word[] = [];
  readonly #heap = new PairHeap();
  readonly #pairCounts = new Map<number, number>();
  /** Words in which a pair was seen; it may have gone from some of them since. */
  readonly #places = new Map<number, number[]>();

  constructor(base: readonly string[], counts: Iterable<readonly [string, number]>) {
    this.symbols = [...base];
    this.#idOf = new Map(base.map((symbol, id) => [symbol, id]));
    for (const [word, count] of counts) this.#addWord(word, count);
    for (const key of this.#pairCounts.keys()) this.#offer(key);
  }

  /** @returns false where no pair occurs twice: a token for what occurs once is of no use to other texts */
  mergeNext(): boolean {
    for (let best = this.#heap.pop(); best !== undefined; best = this.#heap.pop()) {
      const key = pairKey(best.left, best.right);
      const count = this.#pairCounts.get(key) ?? 0;
      if (count !== best.count) {
        this.#offer(key);
        continue;
      }
      if (count < 2) return false;
      this.#merge(best.left, best.right, key);
      return true;
    }
    return false;
  }

  countTokens(): number {
    return this.#words.reduce((sum, { symbols, count }) => sum + symbols.length * count, 0);
  }

  #addWord(word: string, count: number): void {
    const symbols = Array.from(word, (character) => this.#idOf.get(character)!);
    const index = this.#words.push({ symbols, count }) - 1;
    for (let i = 1; i < symbols.length; i++) this.#change(pairKey(symbols[i - 1]!, symbols[i]!), count, index);
  }

  #merge(left: number, right: number, key: number): void {
    const symbol = this.#newSymbol(left, right);
    const places = this.#places.get(key)!;
    const fresh = new Set<number>();
    for (const index of places) this.#mergeInWord(index, left, right, symbol, fresh);
    this.#places.delete(key);
    this.#pairCounts.delete(key);
    for (const pair of fresh) this.#offer(pair);
  }

  /** Two ways of cutting a long run may give the same text; it is one token then. */
  #newSymbol(left: number, right: number): number {
    this.merges.push({ left, right });
    const text = this.symbols[left]! + this.symbols[right]!;
    const known = this.#idOf.get(text);
    if (known !== undefined) return known;
    const id = this.symbols.push(text) - 1;
    this.#idOf.set(text, id);
    return id;
  }

  #mergeInWord(index: number, left: number, right: number, symbol: number, fresh: Set<number>): void {
    const word = this.#words[index]!;
    const { symbols: before, count } = word;
    const after: number[] = [];
    for (let i = 0; i < before.length; i++) {
      if (before[i] !== left || before[i + 1] !== right) {
        after.push(before[i]!);
        continue;
      }
      const previous = after.at(-1);
      const next = before[i + 2];
      if (previous !== undefined) {
        this.#change(pairKey(previous, left), -count);
        fresh.add(this.#change(pairKey(previous, symbol), count, index));
      }
      if (next !== undefined) {
        this.#change(pairKey(right, next), -count);
        fresh.add(this.#change(pairKey(symbol, next), count, index));
      }
      after.push(symbol);
      i++;
    }
    word.symbols = after;
  }

  #change(key: number, by: number, place?: number): number {
    this.#pairCounts.set(key, (this.#pairCounts.get(key) ?? 0) + by);
    if (place === undefined) return key;
    const places = this.#places.get(key);
    if (places === undefined) this.#places.set(key, [place]);
    else if (places.at(-1) !== place) places.push(place);
    return key;
  }

  #offer(key: number): void {
    const count = this.#pairCounts.get(key) ?? 0;
    if (count > 0) this.#heap.push({ left: Math.floor(key / idLimit), right: key % idLimit, count });
  }
}

function pairKey(left: number, right: number): number {
  return left * idLimit + right;
}
