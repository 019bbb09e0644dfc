/**
 * TensorBoard's event files, byte by byte: TFRecord frames (length, payload, and a masked CRC-32C of each, all little-endian)
 * around `Event` messages in protocol-buffer encoding, of which scalars need six fields.
 */

/** Castagnoli's polynomial, bits reversed (RFC 3720, appendix B.4). */
const polynomial = 0x82f63b78;

const crcTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1;
  return crc;
});

/** CRC-32C of `bytes`. */
export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ crcTable[(crc ^ byte) & 0xff]!;
  return ~crc >>> 0;
}

/** Rotated and offset, so that a checksum of data that holds checksums is still worth something (TensorFlow, record_writer). */
function maskedCrc(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}

/** One record of a TFRecord file. */
export function frameRecord(payload: Uint8Array): Buffer {
  const frame = Buffer.alloc(12 + payload.length + 4);
  frame.writeBigUInt64LE(BigInt(payload.length), 0);
  frame.writeUInt32LE(maskedCrc(frame.subarray(0, 8)), 8);
  frame.set(payload, 12);
  frame.writeUInt32LE(maskedCrc(payload), 12 + payload.length);
  return frame;
}

export interface Scalar {
  readonly tag: string;
  /** Kept as a 32-bit float. */
  readonly value: number;
}

/** The record that every event file begins with. @param wallTimeSeconds since 1970 */
export function encodeVersion(wallTimeSeconds: number): Buffer {
  return Buffer.concat([double(1, wallTimeSeconds), bytes(3, Buffer.from("brain.Event:2"))]);
}

/** An event of scalars at one place of the x-axis. @param step a whole number from 0 */
export function encodeScalars(wallTimeSeconds: number, step: number, scalars: readonly Scalar[]): Buffer {
  const values = scalars.map(({ tag, value }) =>
    bytes(1, Buffer.concat([bytes(1, Buffer.from(tag)), float(2, value)])),
  );
  return Buffer.concat([double(1, wallTimeSeconds), varintField(2, step), bytes(5, Buffer.concat(values))]);
}

function varint(value: number): number[] {
  const digits: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) digits.push((rest % 0x80) + 0x80);
  return [...digits, rest];
}

// Wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
const key = (field: number, wireType: number): number[] => varint(field * 8 + wireType);

const varintField = (field: number, value: number): Buffer => Buffer.from([...key(field, 0), ...varint(value)]);

const bytes = (field: number, content: Buffer): Buffer =>
  Buffer.concat([Buffer.from([...key(field, 2), ...varint(content.length)]), content]);

function double(field: number, value: number): Buffer {
  const content = Buffer.alloc(8);
  content.writeDoubleLE(value);
  return Buffer.concat([Buffer.from(key(field, 1)), content]);
}

function float(field: number, value: number): Buffer {
  const content = Buffer.alloc(4);
  content.writeFloatLE(value);
  return Buffer.concat([Buffer.from(key(field, 5)), content]);
}
