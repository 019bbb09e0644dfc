/** What turns text into token ids, and the simplest one: the bytes of UTF-8 themselves. */

export interface Tokenizer {
  /** Ids are below it. */
  readonly vocabularySize: number;
  /** Stands between documents; undefined where the vocabulary has no such token. */
  readonly endOfText: number | undefined;
  /** Tells tokenizers apart: texts encoded with another name are encoded anew. */
  readonly name: string;
  encode(text: string): Uint32Array;
}

const encoder = new TextEncoder();

export const byteTokenizer: Tokenizer = {
  vocabularySize: 256,
  endOfText: undefined,
  name: "bytes",
  encode: (text) => Uint32Array.from(encoder.encode(text)),
};
