import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { firstInvalidUtf8, unfinishedTail } from "../../src/data/utf8.ts";
import { DataError } from "../../src/errors/errors.ts";
import { openTokens } from "./prepared.ts";

const folder = mkdtempSync(join(tmpdir(), "shunya-data-"));
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const uint16 = (...ids: number[]) => new Uint8Array(Uint16Array.from(ids).buffer);
const uint32 = (...ids: number[]) => new Uint8Array(Uint32Array.from(ids).buffer);

async function tokens(paths: string[], vocabularySize: number): Promise<number[]> {
  await using source = await openTokens(paths, { vocabularySize });
  return [...(await source.read(0, source.count))];
}

/** The message of the DataError that opening throws. */
async function refusal(paths: string[], vocabularySize = 50257): Promise<string> {
  const error = await openTokens(paths, { vocabularySize }).then(
    (source) => source.close(),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(DataError);
  return (error as DataError).message;
}

describe("reading", () => {
  test("text: its bytes are the tokens, and a byte order mark is skipped", async () => {
    expect(await tokens([file("a.txt", "aé\n")], 256)).toEqual([0x61, 0xc3, 0xa9, 0x0a]);
    expect(await tokens([file("mark.txt", "\uFEFFab")], 256)).toEqual([0x61, 0x62]);
  });

  test(".bin: uint16, or uint32 for a vocabulary above 65,536", async () => {
    expect(await tokens([file("t16.bin", uint16(0, 50256, 7))], 50257)).toEqual([0, 50256, 7]);
    expect(await tokens([file("t16max.bin", uint16(65535))], 65536)).toEqual([65535]);
    expect(await tokens([file("t32.bin", uint32(65536, 1))], 65537)).toEqual([65536, 1]);
  });

  test("several files are joined in the order given, and ranges cross their borders", async () => {
    const paths = [file("1.bin", uint16(1, 2, 3)), file("2.txt", "AB"), file("3.bin", uint16(4))];
    expect(await tokens(paths, 256)).toEqual([1, 2, 3, 65, 66, 4]);
    await using source = await openTokens(paths, { vocabularySize: 256 });
    expect([...(await source.read(2, 3))]).toEqual([3, 65, 66]);
    expect([...(await source.read(5, 1))]).toEqual([4]);
    expect([...(await source.read(3, 0))]).toEqual([]);
    await expect(source.read(5, 2)).rejects.toThrow(/internal/);
  });

  test("any text over several chunks, with characters across their borders", async () => {
    // A character of three bytes never divides a chunk of 2^20 evenly.
    const text = `x${"\u0905".repeat(800_000)}`;
    await using source = await openTokens([file("long.txt", text)], { vocabularySize: 256 });
    expect(source.count).toBe(2_400_001);
    expect([...(await source.read(2_400_000 - 2, 3))]).toEqual([...Buffer.from("\u0905")]);
  });
});

describe("bad data is a DataError that says where", () => {
  test("missing, a folder, empty", async () => {
    expect(await refusal([join(folder, "none.txt")])).toMatch(/none\.txt: no such file/);
    mkdirSync(join(folder, "sub"));
    expect(await refusal([join(folder, "sub")])).toMatch(/sub is not a regular file/);
    expect(await refusal([file("empty.txt", "")])).toMatch(/empty\.txt is empty; wanted text/);
    expect(await refusal([file("empty.bin", "")])).toMatch(/empty\.bin is empty; wanted tokens/);
    expect(await refusal([file("only-mark.txt", "\uFEFF")])).toMatch(/is empty/);
    expect(await refusal(["/dev/null"])).toMatch(/not a regular file/);
    expect(await refusal(["bad\0name"])).toMatch(/name/);
  });

  test("the second of two files", async () => {
    expect(await refusal([file("fine.txt", "ok"), file("bad.txt", new Uint8Array([0x41, 0xff]))])).toMatch(
      /bad\.txt.*offset 1/,
    );
  });

  test.each([
    ["a stray continuation", [0x41, 0x42, 0x80], 2, "0x80"],
    ["Latin-1", [...Buffer.from("caf"), 0xe9, 0x20], 3, "0xe9"],
    ["an overlong form", [0x41, 0xc0, 0xaf], 1, "0xc0"],
    ["a surrogate", [0xed, 0xa0, 0x80], 0, "0xed"],
    ["beyond Unicode", [0x41, 0xf4, 0x90, 0x80, 0x80], 1, "0xf4"],
    ["a character cut off by the end", [0x41, 0xe0, 0xa4], 1, "0xe0"],
  ])("text that is not UTF-8: %s", async (_, bytes, offset, value) => {
    const message = await refusal([file("not-utf8.txt", Uint8Array.from(bytes as number[]))]);
    expect(message).toContain(`not UTF-8 text: byte ${value} at offset ${offset};`);
  });

  test("a bad byte after the first chunk, and after a byte order mark", async () => {
    const bytes = Buffer.alloc(3_000_000, "\u0905");
    bytes[2_500_000] = 0xff;
    const lead = 2_500_000 - (2_500_000 % 3);
    expect(await refusal([file("late.txt", bytes)])).toContain(`at offset ${lead};`);
    expect(await refusal([file("mark-bad.txt", new Uint8Array([0xef, 0xbb, 0xbf, 0x41, 0xff]))])).toContain(
      "at offset 4;",
    );
  });

  test("UTF-16 is recognised", async () => {
    expect(await refusal([file("utf16.txt", new Uint8Array([0xff, 0xfe, 0x41, 0]))])).toMatch(
      /offset 0 \(it looks like UTF-16\)/,
    );
  });

  test("token files: half a token, and ids outside the vocabulary", async () => {
    expect(await refusal([file("odd.bin", new Uint8Array(5))])).toMatch(
      /odd\.bin has 5 bytes; wanted a multiple of 2.*uint16/,
    );
    expect(await refusal([file("odd32.bin", new Uint8Array(6))], 100_000)).toMatch(/multiple of 4.*uint32.*100000/);
    expect(await refusal([file("big.bin", uint16(1, 50257))])).toMatch(
      /big\.bin has token id 50257 at position 1; wanted ids below 50257/,
    );
    expect(await refusal([file("ascii.txt", "aé")], 128)).toMatch(/byte 195 at position 1; wanted ids below 128/);
    const late = new Uint8Array(3_000_000);
    late.set([0xff, 0xff], 2_000_002);
    expect(await refusal([file("late.bin", late)])).toMatch(/token id 65535 at position 1000001;/);
  });

  test("a file that changes under the run", async () => {
    const path = file("changing.bin", uint16(1, 2, 3, 4));
    await using source = await openTokens([path], { vocabularySize: 10 });
    writeFileSync(path, uint16(1, 2, 3, 99));
    await expect(source.read(0, 4)).rejects.toThrow(/token id 99 at position 3/);
    truncateSync(path, 4);
    await expect(source.read(0, 4)).rejects.toThrow(/ends at byte 4/);
    await expect(source.read(0, 4)).rejects.toBeInstanceOf(DataError);
  });
});

describe("UTF-8 by chunks", () => {
  test("the first bad byte of any bytes is where a strict decoder of growing prefixes stops", () => {
    const bytes = fc.uint8Array({ maxLength: 12 });
    fc.assert(
      fc.property(
        fc.oneof(
          bytes,
          fc.string({ unit: "binary" }).map((text) => new Uint8Array(Buffer.from(text))),
        ),
        (input) => {
          const bad = firstInvalidUtf8(input);
          const decodes = (part: Uint8Array) => {
            try {
              new TextDecoder("utf-8", { fatal: true }).decode(part);
              return true;
            } catch {
              return false;
            }
          };
          expect(decodes(input)).toBe(bad === -1);
          if (bad !== -1) expect(decodes(input.subarray(0, bad))).toBe(true);
        },
      ),
      { numRuns: 500 },
    );
  });

  test("cutting text anywhere leaves a valid part and a tail that completes it", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", minLength: 1 }), fc.nat(), (text, at) => {
        const bytes = new Uint8Array(Buffer.from(text));
        const part = bytes.subarray(0, (at % bytes.length) + 1);
        const tail = unfinishedTail(part);
        expect(firstInvalidUtf8(part.subarray(0, part.length - tail))).toBe(-1);
        expect(firstInvalidUtf8(bytes.subarray(part.length - tail))).toBe(-1);
      }),
      { numRuns: 300 },
    );
  });
});
