/** Pairs of symbols by how often they occur: the most frequent first, and among equals the one with the smaller ids. */

export interface RankedPair {
  readonly left: number;
  readonly right: number;
  readonly count: number;
}

function comesBefore(a: RankedPair, b: RankedPair): boolean {
  if (a.count !== b.count) return a.count > b.count;
  return a.left !== b.left ? a.left < b.left : a.right < b.right;
}

export class PairHeap {
  /** A binary heap: the parent of entry i is entry (i - 1) / 2. */
  readonly #pairs: RankedPair[] = [];

  push(pair: RankedPair): void {
    const pairs = this.#pairs;
    let at = pairs.length;
    pairs.push(pair);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!comesBefore(pair, pairs[parent]!)) break;
      pairs[at] = pairs[parent]!;
      at = parent;
    }
    pairs[at] = pair;
  }

  pop(): RankedPair | undefined {
    const pairs = this.#pairs;
    const first = pairs[0];
    const last = pairs.pop();
    if (first === undefined || last === undefined || pairs.length === 0) return first;
    let at = 0;
    for (let child = 1; child < pairs.length; child = 2 * at + 1) {
      if (child + 1 < pairs.length && comesBefore(pairs[child + 1]!, pairs[child]!)) child++;
      if (!comesBefore(pairs[child]!, last)) break;
      pairs[at] = pairs[child]!;
      at = child;
    }
    pairs[at] = last;
    return first;
  }
}
