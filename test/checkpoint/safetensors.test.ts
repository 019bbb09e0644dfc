import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { type NewTensor, writeSafetensors } from "../../src/checkpoint/safetensors-writer.ts";
import { toFloat32 } from "../../src/device/halves.ts";
import { ModelError } from "../../src/errors/errors.ts";
import { safetensorsBytes, temporaryFolder, zeroTensors } from "./files.ts";

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function file(bytes: Uint8Array): string {
  const path = join(folder, `f${files++}.safetensors`);
  writeFileSync(path, bytes);
  return path;
}

const bytesOf = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);

async function refusal(path: string): Promise<string> {
  const error = await openSafetensors(path).then(
    (opened) => opened.close(),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ModelError);
  expect((error as ModelError).message).toContain(path);
  return (error as ModelError).message;
}

describe("reading", () => {
  test("ranges of fp32, and the metadata", async () => {
    const header = {
      __metadata__: { format: "pt" },
      b: { dtype: "F32", shape: [2], data_offsets: [12, 20] },
      a: { dtype: "F32", shape: [3, 1], data_offsets: [0, 12] },
    };
    await using opened = await openSafetensors(file(safetensorsBytes(header, bytesOf(1, 2, 3, 4, 5))));
    expect([...opened.metadata]).toEqual([["format", "pt"]]);
    expect(opened.tensors.get("a")).toMatchObject({ dtype: "F32", shape: [3, 1], elements: 3 });
    expect([...(await opened.readFloat32("a", 1, 2))]).toEqual([2, 3]);
    expect([...(await opened.readFloat32("b", 0, 2))]).toEqual([4, 5]);
    expect([...(await opened.readFloat32("b", 2, 0))]).toEqual([]);
    expect([...(await opened.read("b", 1, 1))]).toEqual([...bytesOf(5)]);
  });

  test("BF16 and F16 become fp32 exactly", async () => {
    const data = new Uint8Array(Uint16Array.of(0x3f80, 0xc040, 0x0001, 0x3c00, 0xc200, 0x0001).buffer);
    const header = {
      bf: { dtype: "BF16", shape: [3], data_offsets: [0, 6] },
      half: { dtype: "F16", shape: [3], data_offsets: [6, 12] },
    };
    await using opened = await openSafetensors(file(safetensorsBytes(header, data)));
    expect([...(await opened.readFloat32("bf", 0, 3))]).toEqual([1, -3, 2 ** -133]);
    expect([...(await opened.readFloat32("half", 0, 3))]).toEqual([1, -3, 2 ** -24]);
  });

  test("every fp16 number", () => {
    const halves = Uint16Array.from({ length: 65536 }, (_, i) => i);
    const values = toFloat32(new Uint8Array(halves.buffer), "F16");
    for (const half of halves) {
      const sign = half & 0x8000 ? -1 : 1;
      const exponent = (half >> 10) & 31;
      const fraction = half & 1023;
      const magnitude = exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15);
      const wanted = exponent < 31 ? magnitude : fraction === 0 ? Number.POSITIVE_INFINITY : Number.NaN;
      if (!Object.is(values[half], sign * wanted) && !Number.isNaN(wanted))
        expect.unreachable(`fp16 ${half}: ${values[half]}`);
      if (Number.isNaN(wanted)) expect(values[half]).toBeNaN();
    }
  });

  test("a tensor of another type may stand in the file, but is no weight", async () => {
    await using opened = await openSafetensors(
      file(zeroTensors({ mask: { shape: [4], dtype: "U8" }, w: { shape: [] } })),
    );
    expect(opened.tensors.get("w")!.elements).toBe(1);
    await expect(opened.read("mask", 0, 1)).rejects.toThrow(/tensor mask: found dtype U8; wanted F32, F16 or BF16/);
    await expect(opened.read("other", 0, 1)).rejects.toThrow(/no tensor other/);
    await expect(opened.read("w", 1, 1)).rejects.toThrow(/internal/);
  });

  test("PyTorch's oracle folder", async () => {
    const path = new URL("../oracles/gpt2-tiny/model/model.safetensors", import.meta.url).pathname;
    await using opened = await openSafetensors(path);
    const all = await opened.readFloat32("transformer.wte.weight", 0, 256 * 64);
    const deviation = Math.sqrt(all.reduce((sum, value) => sum + value * value, 0) / all.length);
    expect(deviation).toBeCloseTo(0.02, 3);
    expect(await opened.readFloat32("transformer.wte.weight", 1000, 7)).toEqual(all.slice(1000, 1007));
  });
});

describe("bad files are ModelErrors that say what and where", () => {
  const f32 = (shape: number[], begin: number, end: number) => ({ dtype: "F32", shape, data_offsets: [begin, end] });
  const cases: [name: string, header: unknown, dataBytes: number, wanted: RegExp][] = [
    ["not JSON", "{", 0, /header is not JSON/],
    ["a list", [], 0, /header is not a JSON object/],
    ["no object for a tensor", { a: 3 }, 0, /tensor a: found 3; wanted an object/],
    [
      "an unknown type",
      { a: { ...f32([1], 0, 4), dtype: "F31" } },
      4,
      /tensor a: found dtype "F31"; wanted one of F64/,
    ],
    ["no type", { a: { shape: [1], data_offsets: [0, 4] } }, 4, /found dtype nothing/],
    ["a negative size", { a: f32([-1], 0, 4) }, 4, /found shape \[-1\]/],
    ["a size of 1.5", { a: f32([1.5], 0, 6) }, 6, /found shape \[1\.5\]/],
    ["sizes beyond 2^53", { a: f32([2 ** 50, 2 ** 50], 0, 4) }, 4, /fewer than 2\^53 bytes/],
    ["one offset", { a: { dtype: "F32", shape: [1], data_offsets: [4] } }, 4, /found data_offsets \[4\]/],
    ["offsets in the wrong order", { a: f32([1], 4, 0) }, 4, /found -4 bytes; wanted 4 bytes for F32 \[1\]/],
    ["a shape that does not fit its bytes", { a: f32([3], 0, 8) }, 8, /found 8 bytes; wanted 12 bytes/],
    [
      "a truncated file",
      { a: f32([2], 0, 8) },
      5,
      /tensor a: found a file that ends after 5 bytes of data; wanted 8 bytes: .*truncated/,
    ],
    [
      "an overlap",
      { a: f32([2], 0, 8), b: f32([1], 4, 8) },
      8,
      /tensor b overlaps tensor a: begins at byte 4; wanted 8/,
    ],
    ["a gap", { a: f32([1], 0, 4), b: f32([1], 8, 12) }, 12, /tensor b leaves a gap after tensor a/],
    ["bytes at the end", { a: f32([1], 0, 4) }, 9, /found 5 bytes after tensor a/],
    [
      "lists without end",
      `{"a": ${"[".repeat(50_000)}${"]".repeat(50_000)}}`,
      0,
      /tensor a: found \[\[a list of 1\]\]/,
    ],
  ];
  test.each(cases)("%s", async (_, header, dataBytes, wanted) => {
    expect(await refusal(file(safetensorsBytes(header, dataBytes)))).toMatch(wanted);
  });

  test("lengths that cannot be", async () => {
    expect(await refusal(file(new Uint8Array(3)))).toMatch(/has 3 bytes; wanted at least 8/);
    expect(await refusal(file(new Uint8Array(64).fill(0xff)))).toMatch(
      /header's length is 18446744073709551615 bytes; wanted at most/,
    );
    expect(await refusal(file(Uint8Array.of(200, 0, 0, 0, 0, 0, 0, 0, 0x7b)))).toMatch(
      /has 9 bytes; wanted 208 for the header/,
    );
    expect(await refusal(file(new Uint8Array([...safetensorsBytes("{\xff", 0)])))).toMatch(/not JSON/);
  });

  test("no file, a folder, a device", async () => {
    expect(await refusal(join(folder, "none.safetensors"))).toMatch(/no such file/);
    mkdirSync(join(folder, "d.safetensors"));
    expect(await refusal(join(folder, "d.safetensors"))).toMatch(/not a regular file/);
    expect(await refusal("/dev/zero")).toMatch(/not a regular file/);
  });

  test("a file that shrinks after it was opened", async () => {
    const path = file(zeroTensors({ a: { shape: [100] } }));
    await using opened = await openSafetensors(path);
    truncateSync(path, 100);
    await expect(opened.readFloat32("a", 0, 100)).rejects.toThrow(/ends at byte 100/);
  });

  test("random bytes, and real files with random bytes changed", async () => {
    const real = zeroTensors({ a: { shape: [2, 3] }, b: { shape: [2], dtype: "BF16" } });
    const changed = fc
      .array(fc.tuple(fc.nat(real.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 })
      .map((edits) => {
        const bytes = real.slice();
        for (const [at, value] of edits) bytes[at] = value;
        return bytes;
      });
    const framed = fc.string().map((text) => safetensorsBytes(text, 4));
    const path = join(folder, "random.safetensors");
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.uint8Array({ maxLength: 64 }), framed, changed), async (bytes) => {
        writeFileSync(path, bytes);
        try {
          await using opened = await openSafetensors(path);
          for (const { name, elements } of opened.tensors.values()) await opened.readFloat32(name, 0, elements);
        } catch (error) {
          expect(error).toBeInstanceOf(ModelError);
        }
      }),
      { numRuns: 400 },
    );
  });
});

describe("writing", () => {
  const entries: NewTensor[] = [
    { name: "w", dtype: "F32", shape: [2, 2] },
    { name: "empty", dtype: "F32", shape: [0, 4] },
    { name: "half", dtype: "BF16", shape: [3] },
  ];
  const content: Record<string, Uint8Array> = {
    w: bytesOf(1, 2, 3, 4),
    empty: new Uint8Array(0),
    half: new Uint8Array(Uint16Array.of(0x3f80, 0x4000, 0xbf80).buffer),
  };
  const byPieces = (entry: NewTensor) => [content[entry.name]!.subarray(0, 3), content[entry.name]!.subarray(3)];

  test("what is written is read again, and the data begins at a multiple of 8", async () => {
    const path = join(folder, "written.safetensors");
    const asked: string[] = [];
    await writeSafetensors(path, entries, async function* (entry) {
      asked.push(entry.name);
      yield* byPieces(entry);
    });
    expect(asked).toEqual(["w", "empty", "half"]);
    await using opened = await openSafetensors(path);
    expect([...(await opened.readFloat32("w", 0, 4))]).toEqual([1, 2, 3, 4]);
    expect([...(await opened.readFloat32("half", 0, 3))]).toEqual([1, 2, -1]);
    expect([...opened.metadata]).toEqual([["format", "pt"]]);
    const bytes = readFileSync(path);
    expect(Number(bytes.readBigUInt64LE(0)) % 8).toBe(0);
  });

  test("any tensors round-trip", async () => {
    const path = join(folder, "any.safetensors");
    const tensor = fc.record({
      name: fc.string({ unit: "binary", maxLength: 8 }).filter((name) => name !== "__metadata__"),
      dtype: fc.constantFrom("F32" as const, "F16" as const, "BF16" as const),
      shape: fc.array(fc.nat(4), { maxLength: 3 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(tensor, { selector: (t) => t.name, maxLength: 5 }), async (tensors) => {
        const bytes = (t: NewTensor) => {
          const length = t.shape.reduce((product, size) => product * size, t.dtype === "F32" ? 4 : 2);
          return Uint8Array.from({ length }, (_, i) => i * 7);
        };
        await writeSafetensors(path, tensors, (t) => [bytes(t)]);
        await using opened = await openSafetensors(path);
        expect(opened.tensors.size).toBe(tensors.length);
        for (const t of tensors) {
          expect(opened.tensors.get(t.name)).toMatchObject({ dtype: t.dtype, shape: t.shape });
          expect(await opened.read(t.name, 0, opened.tensors.get(t.name)!.elements)).toEqual(bytes(t));
        }
      }),
      { numRuns: 50 },
    );
  });

  test("nothing half-written: an error of the source leaves the old file and no other", async () => {
    const own = join(folder, "own");
    mkdirSync(own);
    const path = join(own, "model.safetensors");
    await writeSafetensors(path, entries, byPieces);
    const before = readFileSync(path);
    const failing = async function* (entry: NewTensor) {
      yield content[entry.name]!;
      if (entry.name === "half") throw new Error("rank 1 is gone");
    };
    await expect(writeSafetensors(path, entries, failing)).rejects.toThrow("rank 1 is gone");
    expect(readdirSync(own)).toEqual(["model.safetensors"]);
    expect(readFileSync(path)).toEqual(before);
  });

  test("too few or too many bytes, and one name twice, are our own bugs", async () => {
    const path = join(folder, "wrong.safetensors");
    await expect(writeSafetensors(path, entries, () => [new Uint8Array(15)])).rejects.toThrow(
      /internal: tensor w: 15 bytes given; wanted 16/,
    );
    await expect(writeSafetensors(path, entries, () => [new Uint8Array(17)])).rejects.toThrow(/internal: tensor w: 17/);
    await expect(writeSafetensors(path, [entries[0]!, entries[0]!], byPieces)).rejects.toThrow(/internal: two tensors/);
    expect(existsSync(path)).toBe(false);
  });

  test("a folder that does not exist, or that is a file", async () => {
    await expect(writeSafetensors(join(folder, "none", "m.safetensors"), entries, byPieces)).rejects.toBeInstanceOf(
      ModelError,
    );
    const path = file(new Uint8Array(1));
    await expect(writeSafetensors(join(path, "m.safetensors"), entries, byPieces)).rejects.toThrow(/cannot be written/);
  });
});
