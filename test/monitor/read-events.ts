/** Reads TensorBoard event files by the formats' definitions, bit by bit and slowly: it shares nothing with the writer. */

export interface ReadEvent {
  readonly wallTime: number;
  readonly step: number;
  readonly version: string | undefined;
  readonly scalars: readonly { readonly tag: string; readonly value: number }[];
}

/** CRC-32C by long division of the bit-reversed message, without a table. */
function checksum(bytes: Uint8Array): number {
  let crc = 0xffffffffn;
  for (const byte of bytes)
    for (let bit = 0; bit < 8; bit++) {
      const odd = (crc ^ BigInt((byte >> bit) & 1)) & 1n;
      crc = (crc >> 1n) ^ (odd ? 0x82f63b78n : 0n);
    }
  const plain = crc ^ 0xffffffffn;
  const rotated = ((plain >> 15n) | (plain << 17n)) & 0xffffffffn;
  return Number((rotated + 0xa282ead8n) & 0xffffffffn);
}

/** @throws Error where a checksum is wrong or the file ends within a record */
export function readEvents(file: Buffer): ReadEvent[] {
  const events: ReadEvent[] = [];
  for (let at = 0; at < file.length; ) {
    if (checksum(file.subarray(at, at + 8)) !== file.readUInt32LE(at + 8)) throw new Error("checksum of a length");
    const length = Number(file.readBigUInt64LE(at));
    const payload = file.subarray(at + 12, at + 12 + length);
    if (checksum(payload) !== file.readUInt32LE(at + 12 + length)) throw new Error("checksum of a record");
    events.push(readEvent(payload));
    at += 16 + length;
  }
  return events;
}

type Field = readonly [number: number, value: bigint | Buffer];

function fieldsOf(message: Buffer): Field[] {
  const fields: Field[] = [];
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const take = (length: number): Buffer => {
    at += length;
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const key = Number(varint());
    const type = key & 7;
    fields.push([key >> 3, type === 0 ? varint() : take(type === 1 ? 8 : type === 5 ? 4 : Number(varint()))]);
  }
  return fields;
}

function readEvent(message: Buffer): ReadEvent {
  const fields = new Map(fieldsOf(message));
  const summary = fields.get(5) as Buffer | undefined;
  const values = summary === undefined ? [] : fieldsOf(summary).map(([, value]) => new Map(fieldsOf(value as Buffer)));
  return {
    wallTime: (fields.get(1) as Buffer).readDoubleLE(),
    step: Number(fields.get(2) ?? 0n),
    version: (fields.get(3) as Buffer | undefined)?.toString(),
    scalars: values.map((v) => ({ tag: (v.get(1) as Buffer).toString(), value: (v.get(2) as Buffer).readFloatLE() })),
  };
}
