// A checksum of blocks and of the whole in one pass, and files that are written in whole blocks, at every odd length.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { afterAll, expect, test } from "vitest";
import { writeAtomically } from "../../src/checkpoint/atomic-file.ts";
import { Checksum, checksumOf } from "../../src/checkpoint/checksum.ts";
import { crc32 as own } from "../../src/checkpoint/crc32.ts";
import { temporaryFolder } from "./files.ts";

const here = temporaryFolder();
afterAll(() => rmSync(here, { recursive: true, force: true }));

const mebibyte = 2 ** 20;
const noise = Uint8Array.from({ length: 9 * mebibyte + 5 }, (_, i) => Math.imul(i, 0x9e3779b9) >>> 24);

test("the native checksum is zlib's, of bytes of every length, wherever they begin and whatever came before", () => {
  for (let length = 0; length < 300; length++)
    for (const first of [0, 1, 7, 8, 13]) {
      const part = noise.subarray(first, first + length);
      for (const before of [0, 1, 0x8a3f05c1, 0xffffffff]) expect(own(part, before)).toBe(crc32(part, before));
    }
  expect(() => own(noise, -1)).toThrow(RangeError);
});

test("a whole's checksum, made of its blocks', is that of all bytes", () => {
  for (const bytes of [0, 1, 4095, mebibyte, mebibyte + 1, 3 * mebibyte, noise.length])
    for (const piece of [7919, mebibyte, 5 * mebibyte]) {
      const sum = new Checksum();
      for (let done = 0; done < bytes; done += piece) sum.add(noise.subarray(done, Math.min(done + piece, bytes)));
      expect([sum.bytes, sum.value]).toEqual([bytes, crc32(noise.subarray(0, bytes))]);
      expect(sum.blocks).toEqual(
        Array.from({ length: Math.ceil(bytes / mebibyte) }, (_, i) =>
          crc32(noise.subarray(i * mebibyte, Math.min((i + 1) * mebibyte, bytes))),
        ),
      );
    }
});

test("files of every odd length hold what was given, though pieces change once they are taken; so do their checksums", async () => {
  for (const bytes of [0, 1, 4096, 4097, 4 * mebibyte, 4 * mebibyte + 4096, noise.length]) {
    const path = join(here, String(bytes));
    writeFileSync(path, "what was there before");
    const piece = new Uint8Array(1_000_003);
    await writeAtomically(
      path,
      (function* () {
        for (let done = 0; done < bytes; done += piece.length) {
          const part = piece.subarray(0, bytes - done);
          part.set(noise.subarray(done, done + part.length));
          yield part;
        }
      })(),
    );
    expect(Buffer.compare(readFileSync(path), noise.subarray(0, bytes))).toBe(0);
    expect((await checksumOf(path)).value).toBe(crc32(noise.subarray(0, bytes)));
  }
  expect(readdirSync(here).filter((name) => name.startsWith("."))).toEqual([]);
});
