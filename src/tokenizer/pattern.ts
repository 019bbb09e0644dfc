/**
 * Where text is cut before byte pairs are merged: no token reaches over a cut. In order of preference
 * - a word, with one character before it (a space, a quote) that is no letter, digit or line end. Marks (`\p{M}`) belong to words:
 *   vowel signs, viramas and nuktas of Indic scripts are marks, and GPT-2's pattern, which knows letters only, cuts before each of
 *   them. Joiners inside a word (U+200C, U+200D) belong to it too.
 * - one to three digits;
 * - other signs, with a space before and line ends after them;
 * - line ends with the space before them; space, but for the last one before a word.
 *
 * `\p{White_Space}` and not `\s`, which means different characters in JavaScript and in the library that Python uses.
 */

const joiners = "\u200C\u200D";
const letter = "\\p{L}\\p{M}";
const space = "\\p{White_Space}";

export const wordPattern = [
  `[^\\r\\n${letter}\\p{N}]?[${letter}][${letter}${joiners}]*`,
  "\\p{N}{1,3}",
  ` ?[^${space}${letter}\\p{N}]+[\\r\\n]*`,
  `${space}*[\\r\\n]+`,
  `${space}+(?!\\P{White_Space})`,
  `${space}+`,
].join("|");

/** The words of a text; together they are the text. */
export function wordsOf(text: string): IterableIterator<string> {
  return wordMatches(text);
}

function* wordMatches(text: string): IterableIterator<string> {
  for (const match of text.matchAll(new RegExp(wordPattern, "gu"))) yield match[0];
}
