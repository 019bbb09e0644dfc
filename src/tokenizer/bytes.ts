/** Text as its UTF-8 bytes: 256 tokens, nothing to train, nothing that it cannot say. */

import { UsageError } from "../errors/errors.ts";
import { checkDecode, checkEncode } from "./call-kinds.ts";
import type { Tokenizer, TokenStream } from "./tokenizer.ts";

/** What a text without a tokenizer is made of. */
const byteValues = 256;

export const byteTokenizer: Tokenizer = {
  vocabularySize: byteValues,
  endOfText: undefined,
  name: "bytes",
  settings: {},
  encode(text, options = {}) {
    checkEncode(text, options);
    return Uint32Array.from(new TextEncoder().encode(text));
  },
  decode(ids, options = {}) {
    checkDecode(ids, options);
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(ids, checkByte));
  },
  stream(): TokenStream {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    return {
      push: (id) => decoder.decode(Uint8Array.of(checkByte(id)), { stream: true }),
      end: () => decoder.decode(),
    };
  },
  idOf(token) {
    const bytes = new TextEncoder().encode(token);
    return bytes.length === 1 ? bytes[0] : undefined;
  },
  tokenOf: (id) => (isByte(id) ? `0x${id.toString(16).padStart(2, "0")}` : undefined),
};

function isByte(id: number): boolean {
  return Number.isInteger(id) && id >= 0 && id < byteValues;
}

function checkByte(id: number): number {
  if (!isByte(id)) throw new UsageError(`token id ${id} is no byte; wanted 0 to ${byteValues - 1}`);
  return id;
}
