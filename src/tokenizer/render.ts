/** A trained tokenizer as the two files that Hugging Face's libraries read. */

import { wordPattern } from "./pattern.ts";
import type { TrainedTokenizer } from "./train.ts";

const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false };

function addedToken(content: string): Record<string, unknown> {
  return { content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
}

/** tokenizer.json. Merges are written as "left right", which all versions of the library read. */
export function renderTokenizer({ specialTokens, vocabulary, merges }: TrainedTokenizer): string {
  const json = {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: specialTokens.map((content, id) => ({ id, ...addedToken(content) })),
    normalizer: null,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { Regex: wordPattern }, behavior: "Isolated", invert: false },
        byteLevel,
      ],
    },
    post_processor: null,
    decoder: byteLevel,
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])),
      merges: merges.map(([left, right]) => `${left} ${right}`),
    },
  };
  return `${JSON.stringify(json, undefined, 1)}\n`;
}

/** tokenizer_config.json. The first special token ends a text. */
export function renderSettings({ specialTokens }: TrainedTokenizer): string {
  const [end] = specialTokens;
  const json = {
    added_tokens_decoder: Object.fromEntries(specialTokens.map((token, id) => [id, addedToken(token)])),
    ...(end === undefined ? {} : { eos_token: end }),
    clean_up_tokenization_spaces: false,
    tokenizer_class: "PreTrainedTokenizerFast",
  };
  return `${JSON.stringify(json, undefined, 2)}\n`;
}
