/** Long documents are encoded piece by piece, so that a text may be larger than memory and the work stays linear. */

import type { DocumentPiece } from "./documents.ts";

/** Long beside any token, small beside memory. */
const pieceLength = 1 << 18;
/** How far back a place to cut is looked for. */
const searchLength = 1 << 14;
/** A space between two letters: pre-tokenizers cut there too, so no token is another than in the whole text. */
const goodPlace = /(?<=\p{L}) (?=\p{L})/gu;

/** Puts pieces together and cuts what is long where words end. Documents shorter than a piece stay whole. */
export async function* encodablePieces(documents: AsyncIterable<DocumentPiece>): AsyncGenerator<DocumentPiece> {
  let pending = "";
  for await (const piece of documents) {
    pending = pending === "" ? piece.text : pending + piece.text;
    let from = 0;
    while (pending.length - from > pieceLength) {
      const end = from + cutPlace(pending.slice(from, from + pieceLength));
      yield { ...piece, text: pending.slice(from, end), isLast: false };
      from = end;
    }
    pending = from === 0 ? pending : pending.slice(from);
    if (!piece.isLast) continue;
    yield { ...piece, text: pending };
    pending = "";
  }
}

/** Where to cut: the last good place, else any border of characters. */
function cutPlace(text: string): number {
  const first = text.length - searchLength;
  const last = [...text.slice(first).matchAll(goodPlace)].at(-1);
  if (last) return first + last.index;
  const isPair = /[\uD800-\uDBFF]$/.test(text);
  return isPair ? text.length - 1 : text.length;
}
