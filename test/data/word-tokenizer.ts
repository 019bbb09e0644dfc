// A tokenizer that a worker can open, as one of a model folder is.
import type { TextTokenizer } from "../../src/data/encode-batch.ts";

/** Words become ids from 1 on by their length; 0 ends a text. Enough to see what a tokenizer was given. */
export const wordTokenizer: TextTokenizer = {
  name: "words",
  vocabularySize: 1000,
  endOfText: 0,
  encode: (text) => Uint32Array.from(text.match(/\S+/g) ?? [], (word) => Math.min(999, word.length)),
};

/** @param failsOn a text with this word is more than it can take */
export async function openTokenizer(failsOn: string): Promise<TextTokenizer> {
  if (failsOn === "everything") throw new Error("no such tokenizer");
  const encode = (text: string): Uint32Array => {
    if (text.includes(failsOn)) throw new Error(`cannot take ${failsOn}`);
    return wordTokenizer.encode(text);
  };
  return { ...wordTokenizer, encode };
}
