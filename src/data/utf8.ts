/** Streaming UTF-8 validation that can say where the first bad byte is. */

import { isUtf8 } from "node:buffer";

/** Bytes in the sequence that a lead byte begins; 0 where no sequence begins with it (RFC 3629, section 4). */
function sequenceLength(lead: number): number {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

/** Index of the first byte of the first sequence that is not UTF-8, or -1. A sequence cut off by the end counts as bad. */
export function firstInvalidUtf8(bytes: Uint8Array): number {
  if (isUtf8(bytes)) return -1;
  for (let at = 0; at < bytes.length; ) {
    const length = sequenceLength(bytes[at]!);
    if (length === 0 || at + length > bytes.length || !isUtf8(bytes.subarray(at, at + length))) return at;
    at += length;
  }
  return -1;
}

/** Bytes at the end of a chunk that begin a sequence which the chunk does not finish: 0 to 3. */
export function unfinishedTail(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!;
    if ((byte & 0xc0) === 0x80) continue;
    return sequenceLength(byte) > back ? back : 0;
  }
  return 0;
}

/** The message for bytes that are not UTF-8. @param bad index of the first bad byte of `bytes` @param offset of `bytes` in the file */
export function describeInvalidUtf8(path: string, bytes: Uint8Array, bad: number, offset: number): string {
  const value = `0x${bytes[bad]!.toString(16).padStart(2, "0")}`;
  const utf16 = offset + bad === 0 && (bytes[0] === 0xff || bytes[0] === 0xfe) ? " (it looks like UTF-16)" : "";
  return (
    `${path} is not UTF-8 text: byte ${value} at offset ${offset + bad}${utf16}; ` +
    "save it as UTF-8, or name it .bin if it is a file of token ids"
  );
}
