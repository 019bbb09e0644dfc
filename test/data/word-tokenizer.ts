// A tokenizer that a worker can open, as one of a model folder is.
import type { TextTokenizer } from "../../src/data/encode-batch.ts";

/** Words become ids from 1 on by their length; 0 ends a text. Enough to see what a tokenizer was given. */
export const wordTokenizer: TextTokenizer = {
  name: "words",
  vocabularySize: 1000,
  endOfText: 0,
  encode: (text) => Uint32Array.from(text.match(/\S+/g) ?? [], (word) => Math.min(999, word.length)),
};

/** The same with a chat template: a letter for the role, the words, and after an answer EOT, which is 0. */
export const chatTokenizer = {
  ...wordTokenizer,
  encode: (text: string) =>
    Uint32Array.from(text.match(/EOT|\S+/g) ?? [], (word) => (word === "EOT" ? 0 : Math.min(999, word.length))),
  settings: {
    chat_template:
      "{% for m in messages %}{{ m.role[0] }} {{ m.content }} {% if m.role == 'assistant' %}EOT{% endif %} {% endfor %}" +
      "{% if add_generation_prompt %}a {% endif %}",
  },
} satisfies TextTokenizer;

/** @param failsOn a text with this word is more than it can take */
export async function openTokenizer(failsOn: string): Promise<TextTokenizer> {
  if (failsOn === "nothing, and chats") return chatTokenizer;
  if (failsOn === "everything") throw new Error("no such tokenizer");
  const encode = (text: string): Uint32Array => {
    if (text.includes(failsOn)) throw new Error(`cannot take ${failsOn}`);
    return wordTokenizer.encode(text);
  };
  return { ...wordTokenizer, encode };
}
