/** Long documents piece by piece, so that a text may be larger than memory and the work on it stays linear. */

import type { DocumentPiece } from "./documents.ts";

/** Characters that are encoded at once: long beside any token, small beside memory. */
const encodedLength = 1 << 18;
/** How far back a place to cut is looked for. */
const searchLength = 1 << 14;

/**
 * Puts pieces together and cuts what is long where tokenizers cut too, so that no token is another than in the whole text: before the
 * last space between two letters, else after the last line end between two signs that are no space, else between two characters.
 * Documents of at most `longest` characters stay whole. Where pieces end depends on the text and on `longest` alone.
 */
export async function* piecesOf(
  documents: AsyncIterable<DocumentPiece>,
  longest = encodedLength,
): AsyncGenerator<DocumentPiece> {
  let pending = "";
  for await (const piece of documents) {
    pending = pending === "" ? piece.text : pending + piece.text;
    let from = 0;
    while (pending.length - from > longest) {
      const end = from + cutPlace(pending.slice(from, from + longest));
      yield { ...piece, text: pending.slice(from, end), isLast: false };
      from = end;
    }
    pending = from === 0 ? pending : pending.slice(from);
    if (!piece.isLast) continue;
    yield { ...piece, text: pending };
    pending = "";
  }
}

function cutPlace(text: string): number {
  const space = lastBetween(text, " ", letterBefore, letterAfter);
  if (space !== -1) return space;
  const lineEnd = lastBetween(text, "\n", signBefore, signAfter);
  if (lineEnd !== -1) return lineEnd + 1;
  return /[\uD800-\uDBFF]$/.test(text) ? text.length - 1 : text.length;
}

const letterBefore = /\p{L}$/u;
const letterAfter = /^\p{L}/u;
const signBefore = /\S$/;
const signAfter = /^\S/;

/** The last index, not too far from the end, at which this sign stands between two others of a kind; -1 where there is none. */
function lastBetween(text: string, sign: string, before: RegExp, after: RegExp): number {
  const first = Math.max(1, text.length - searchLength);
  for (let at = text.lastIndexOf(sign); at >= first; at = text.lastIndexOf(sign, at - 1)) {
    if (before.test(text.slice(at - 2, at)) && after.test(text.slice(at + 1, at + 3))) return at;
  }
  return -1;
}
