/**
 * Bytes as printable characters, as GPT-2's files write them: a tokenizer.json is text, and its tokens are parts of UTF-8 sequences.
 * The 188 printable characters of Latin-1 stand for themselves; the other bytes follow from U+0100 on (Radford et al., 2019).
 */

const printableRanges: readonly (readonly [number, number])[] = [
  [0x21, 0x7e],
  [0xa1, 0xac],
  [0xae, 0xff],
];

function isPrintable(byte: number): boolean {
  return printableRanges.some(([first, last]) => byte >= first && byte <= last);
}

/** By byte: its character. */
export const byteCharacters: readonly string[] = (() => {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isPrintable(byte) ? byte : next++));
})();

const byteOfCharacter = new Map(byteCharacters.map((character, byte) => [character, byte]));

/** The bytes of a byte-level token; undefined where a character of it stands for none, as in an added token. */
export function tokenBytes(token: string): Uint8Array | undefined {
  const bytes = Array.from(token, (character) => byteOfCharacter.get(character));
  return bytes.includes(undefined) ? undefined : Uint8Array.from(bytes as number[]);
}
