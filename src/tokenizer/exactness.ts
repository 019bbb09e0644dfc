/**
 * Where the library for JavaScript differs from the original, which is written in Rust, and what is put in its place. All were found
 * by comparing the two on thousands of lines; test/oracles/tokenizers keeps some.
 */

import { isUtf8 } from "node:buffer";

/**
 * GPT-2's pattern with Unicode's white space. The library writes `\s`, which in JavaScript counts U+FEFF in and leaves U+0085 out.
 */
const gpt2Pattern =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

/** Digits of all scripts are digits; the library writes `\d`, which in JavaScript knows those of ASCII alone. */
const digitPattern = { single: /\P{N}+|\p{N}/gu, together: /\P{N}+|\p{N}+/gu };

/** The parts of the library's objects that matter here. */
interface PreTokenizer {
  readonly config?: { readonly type?: string; readonly individual_digits?: boolean };
  /** Of a sequence. */
  readonly tokenizers?: readonly (PreTokenizer | null)[];
  pattern?: RegExp;
}

interface Decoder {
  readonly config?: { readonly type?: string };
  /** Of a sequence. */
  readonly decoders?: readonly (Decoder | null)[];
  text_decoder?: { decode(bytes: Uint8Array): string };
}

export interface Parts {
  readonly pre_tokenizer: PreTokenizer | null;
  readonly decoder: Decoder | null;
}

/** Bytes that are together no UTF-8 become one U+FFFD each; a byte order mark is text. */
const wholeBytes = {
  decode: (bytes: Uint8Array): string =>
    isUtf8(bytes) ? Buffer.from(bytes).toString("utf8") : "\uFFFD".repeat(bytes.length),
};

export function makeExact({ pre_tokenizer, decoder }: Parts): void {
  mendPreTokenizer(pre_tokenizer);
  mendDecoder(decoder);
}

function mendPreTokenizer(part: PreTokenizer | null): void {
  if (part?.config?.type === "ByteLevel") part.pattern = gpt2Pattern;
  if (part?.config?.type === "Digits")
    part.pattern = digitPattern[part.config.individual_digits ? "single" : "together"];
  for (const inner of part?.tokenizers ?? []) mendPreTokenizer(inner);
}

function mendDecoder(part: Decoder | null): void {
  if (part?.config?.type === "ByteFallback") part.text_decoder = wholeBytes;
  for (const inner of part?.decoders ?? []) mendDecoder(inner);
}
