// Event files against published checksums and against a reader that knows nothing of the writer.
import { expect, test } from "vitest";
import { crc32c, encodeScalars, encodeVersion, frameRecord } from "../../src/monitor/event-file.ts";
import { readEvents } from "./read-events.ts";

test("CRC-32C has the values of RFC 3720, appendix B.4", () => {
  const counted = Uint8Array.from({ length: 32 }, (_, i) => i);
  expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
  expect(crc32c(new Uint8Array(32).fill(0xff))).toBe(0x62a8ab43);
  expect(crc32c(counted)).toBe(0x46dd794e);
  expect(crc32c(counted.toReversed())).toBe(0x113fdb5c);
  expect(crc32c(Buffer.from("123456789"))).toBe(0xe3069283);
});

test("the first record is the 24 bytes that TensorFlow writes for the version", () => {
  // Wall time 0: double 1 = 0.0, then string 3 = "brain.Event:2".
  const payload = encodeVersion(0);
  expect(payload.toString("hex")).toBe(`09${"00".repeat(8)}1a0d${Buffer.from("brain.Event:2").toString("hex")}`);
  const frame = frameRecord(payload);
  expect(frame).toHaveLength(12 + 24 + 4);
  // The masked checksum of the length 24, little-endian: known from the first bytes of any event file.
  expect(frame.subarray(0, 12).toString("hex")).toBe("1800000000000000a37f4b22");
});

test("an independent reader finds the scalars", () => {
  const scalars = [
    { tag: "Train/Samples/train_loss", value: 2.5 },
    { tag: "Train/Samples/lr", value: Number.NaN },
  ];
  const file = Buffer.concat([
    frameRecord(encodeVersion(1.5)),
    frameRecord(encodeScalars(2.25, 0, scalars)),
    frameRecord(encodeScalars(3, 2 ** 40 + 300, scalars.slice(0, 1))),
  ]);
  expect(readEvents(file)).toEqual([
    { wallTime: 1.5, step: 0, version: "brain.Event:2", scalars: [] },
    { wallTime: 2.25, step: 0, version: undefined, scalars },
    { wallTime: 3, step: 2 ** 40 + 300, version: undefined, scalars: scalars.slice(0, 1) },
  ]);
});

test("a flipped bit is noticed", () => {
  const frame = frameRecord(encodeScalars(1, 2, [{ tag: "a", value: 1 }]));
  for (const at of [0, 9, 15, frame.length - 1]) {
    const broken = Buffer.from(frame);
    broken[at]! ^= 1;
    expect(() => readEvents(broken), String(at)).toThrow(/checksum/);
  }
});
