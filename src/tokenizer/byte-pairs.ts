/**
 * Byte-level BPE on numbers: a word's bytes become ids, and the pair that was learned first is merged until none is left. The library
 * does the same on strings and with a queue, which takes ten times as long for a word; the ids are the same.
 */

import { byteCharacters } from "./byte-level.ts";

/** The parts of the library's model that matter here. */
export interface BpeModel {
  readonly config?: Readonly<Record<string, unknown>>;
  readonly tokens_to_ids: ReadonlyMap<string, number>;
  readonly merges: readonly (readonly string[])[];
}

/** What a file may ask for beside plain merging; where one is set, the library does the work. */
const extras = [
  "dropout",
  "continuing_subword_prefix",
  "continuing_subword_suffix",
  "end_of_word_suffix",
  "byte_fallback",
];

export class BytePairs {
  readonly #merges: MergeTable;
  /** By byte. */
  readonly #byteIds: Int32Array;
  /** Whole words that are tokens whatever their merges, if the file wants that. */
  readonly #words: ReadonlyMap<string, number> | undefined;

  private constructor(merges: MergeTable, byteIds: Int32Array, words: ReadonlyMap<string, number> | undefined) {
    this.#merges = merges;
    this.#byteIds = byteIds;
    this.#words = words;
  }

  /** Undefined for a model that is more than merges of bytes. */
  static of({ config = {}, tokens_to_ids: idOf, merges }: BpeModel): BytePairs | undefined {
    const isPlain = extras.every((name) => !config[name]);
    const byteIds = byteCharacters.map((character) => idOf.get(character));
    if (!isPlain || byteIds.includes(undefined) || new Set(idOf.values()).size < idOf.size) return undefined;
    const table = new MergeTable(merges.length);
    for (const [rank, [left, right]] of merges.entries()) {
      const ids = [left!, right!, `${left}${right}`].map((token) => idOf.get(token));
      if (ids.includes(undefined)) return undefined;
      table.set(ids[0]!, ids[1]!, rank, ids[2]!);
    }
    return new BytePairs(table, Int32Array.from(byteIds as number[]), config.ignore_merges ? idOf : undefined);
  }

  /** @param bytes of a word, a few hundred at most: the work grows with their square */
  encode(bytes: Uint8Array): number[] {
    const whole = this.#words?.get(characters(bytes));
    if (whole !== undefined) return [whole];
    const ids = Array.from(bytes, (byte) => this.#byteIds[byte]!);
    /** Of each id with the next one: the slot of their merge, or -1. */
    const slots = ids.map((id, i) => (i + 1 < ids.length ? this.#merges.find(id, ids[i + 1]!) : -1));
    while (true) {
      const at = this.#firstMerge(slots);
      if (at === -1) return ids;
      ids[at] = this.#merges.mergedAt(slots[at]!);
      ids.splice(at + 1, 1);
      slots.splice(at + 1, 1);
      slots[at] = at + 1 < ids.length ? this.#merges.find(ids[at]!, ids[at + 1]!) : -1;
      if (at > 0) slots[at - 1] = this.#merges.find(ids[at - 1]!, ids[at]!);
    }
  }

  /** Index of the pair that was learned first, the leftmost of equal ones; -1 where none can be merged. */
  #firstMerge(slots: readonly number[]): number {
    let first = -1;
    let least = Number.POSITIVE_INFINITY;
    for (let i = 0; i < slots.length; i++) {
      const slot = slots[i]!;
      if (slot === -1) continue;
      const rank = this.#merges.rankAt(slot);
      if (rank >= least) continue;
      least = rank;
      first = i;
    }
    return first;
  }
}

export function characters(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += byteCharacters[byte];
  return text;
}

/** Pairs of ids with what they become: a hash table in one array, since a map of pairs would make a key for every look. */
class MergeTable {
  /** Left, right, rank, merged of each slot; a free one has -1. */
  readonly #slots: Int32Array;
  readonly #mask: number;

  constructor(merges: number) {
    const count = 2 ** Math.ceil(Math.log2(2 * merges + 2));
    this.#slots = new Int32Array(4 * count).fill(-1);
    this.#mask = count - 1;
  }

  /** A later merge of the same pair takes the place of the earlier one, as in the library. */
  set(left: number, right: number, rank: number, merged: number): void {
    this.#slots.set([left, right, rank, merged], this.#place(left, right));
  }

  /** The slot of a pair, or -1. */
  find(left: number, right: number): number {
    const slot = this.#place(left, right);
    return this.#slots[slot] === -1 ? -1 : slot;
  }

  rankAt(slot: number): number {
    return this.#slots[slot + 2]!;
  }

  mergedAt(slot: number): number {
    return this.#slots[slot + 3]!;
  }

  #place(left: number, right: number): number {
    let at = Math.imul(Math.imul(left, 0x9e3779b1) ^ right, 0x85ebca6b) >>> 7;
    while (true) {
      const slot = 4 * (at & this.#mask);
      const found = this.#slots[slot]!;
      if (found === -1 || (found === left && this.#slots[slot + 1] === right)) return slot;
      at++;
    }
  }
}
