/** Patterns of tensor names: `*` stands for any characters, all else for itself. */
import { nearest } from "../errors/spelling.ts";

/** Takes the pattern's literals from left to right, each where it comes first. */
export function matcherOf(pattern: string): (name: string) => boolean {
  const [head = "", ...literals] = pattern.split("*");
  const tail = literals.pop();
  if (tail === undefined) return (name) => name === pattern;
  return (name) => {
    const end = name.length - tail.length;
    let at = head.length;
    if (at > end || !name.startsWith(head) || !name.endsWith(tail)) return false;
    return literals.every((literal) => {
      const found = name.indexOf(literal, at);
      at = found + literal.length;
      return found >= 0 && at <= end;
    });
  };
}

/** What to say of a pattern that fits none of `names`, with the nearest one that does. */
export function unmatched(pattern: string, names: readonly string[]): string {
  const words = new Set(names.flatMap((name) => name.split(".")));
  const corrected = pattern.replace(/[^.*]+/g, (word) => (words.has(word) ? word : (nearest(word, words) ?? word)));
  const meant = [corrected, `*${corrected}`, `*${corrected}*`].find((p) => names.some(matcherOf(p)));
  const hint = meant === undefined ? "" : `; did you mean "${meant}"?`;
  return `no parameter's name matches the pattern "${pattern}"${hint} (names are such as ${examplesOf(names)}; * stands for any characters)`;
}

/** A few names, of different parts of the model where there are many. */
export function examplesOf(names: readonly string[]): string {
  const shown = new Set([0, 0.5, 1].map((share) => names[Math.floor(share * (names.length - 1))]));
  return [...shown].join(", ");
}
