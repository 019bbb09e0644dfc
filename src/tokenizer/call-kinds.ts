/** What the calls of a tokenizer may be given. */
import { checkArgument, checkOptions, type Kinds, required, text, truth } from "../errors/options.ts";
import type { DecodeOptions, EncodeOptions } from "./tokenizer.ts";

const textKind = required(text);
const idsKind = required({
  wanted: "a list of token ids",
  holds: (value) =>
    typeof value === "object" && value !== null && Number.isSafeInteger((value as { length?: unknown }).length),
});
const encodeKinds: Kinds<EncodeOptions> = { addSpecialTokens: truth };
const decodeKinds: Kinds<DecodeOptions> = { skipSpecialTokens: truth };

/** @throws UsageError */
export function checkEncode(text: string, options: EncodeOptions): void {
  checkArgument("encode", "text", text, textKind);
  checkOptions("encode", options, encodeKinds);
}

/** @throws UsageError */
export function checkDecode(ids: ArrayLike<number>, options: DecodeOptions): void {
  checkArgument("decode", "ids", ids, idsKind);
  checkOptions("decode", options, decodeKinds);
}
