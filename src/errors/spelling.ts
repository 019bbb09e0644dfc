/** "Did you mean": the known key nearest to an unknown one. */

/** Longer words are never near to a known key; bounds the cost of the comparison. */
const maxLength = 80;

/** Edits (insert, delete, replace, swap of neighbours) that turn one word into the other: optimal string alignment. */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      let best = Math.min(replaced, last[j]! + 1, row[j - 1]! + 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) best = Math.min(best, beforeLast[j - 2]! + 1);
      row.push(best);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length]!;
}

/** The candidate nearest to `word` if it is near enough to be a slip (a quarter of its letters, at least one), else undefined. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > maxLength) return undefined;
  const plain = normalise(word);
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(word.length / 4)) + 1;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - plain.length) >= bestDistance) continue;
    const distance = editDistance(plain, normalise(candidate));
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** gradientClipping, gradient-clipping and gradient_clipping are one word to a reader. */
function normalise(word: string): string {
  return word
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/[-\s]/g, "_")
    .toLowerCase();
}
