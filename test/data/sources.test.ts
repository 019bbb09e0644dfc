// Which files `--data` means, and how packed files are read.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { windowPlaces } from "../../src/data/row-places.ts";
import { RowSampler } from "../../src/data/sampler.ts";
import { openRanges } from "../../src/data/tokens.ts";
import { byteTokenizer } from "../../src/tokenizer/tokenizer.ts";
import { DataFolder } from "./prepared.ts";

const data = new DataFolder();

describe("folders and patterns", () => {
  data.file("corpus/b.txt", "B");
  data.file("corpus/a.jsonl", '{"text":"A"}\n');
  data.file("corpus/deep/er/c.md", "C");
  data.file("corpus/deep/d.txt.gz", gzipSync("D"));
  data.file("corpus/.hidden/e.txt", "E");
  data.file("corpus/picture.png", "P");
  data.file("corpus/README", "R");
  data.file("corpus/f.bin", Uint8Array.of(70, 0));
  data.file("bare/README", "R");

  test("a folder: all files of known endings below it, in the order of their paths", async () => {
    const found = await data.read([data.at("corpus")]);
    expect(found.text).toBe("A\nBDCF");
    expect(found.notices).toMatch(/left out: 2 files of other kinds: corpus\/README, corpus\/picture\.png$/);
  });

  test("a pattern: the files that fit, whatever their ending", async () => {
    expect(await data.read([data.at("corpus/*.txt")])).toEqual({ text: "B", notices: "" });
    expect((await data.read([data.at("corpus/**/*.{txt,md,txt.gz}")])).text).toBe("BDC");
    expect((await data.read([data.at("corpus/READ*")])).text).toBe("R");
  });

  test("what finds nothing is refused", async () => {
    expect(await data.refusal([data.at("corpus/*.csv")])).toMatch(/no file fits this pattern/);
    expect(await data.refusal([data.at("bare")])).toMatch(
      /bare is a folder without data; wanted files that end in \.txt/,
    );
    expect(await data.refusal([data.at("missing.jsonl")])).toMatch(/missing\.jsonl: no such file/);
    expect(await data.refusal([data.at("missing.txt")])).toMatch(/missing\.txt: no such file/);
    expect(await data.refusal([])).toMatch(/--data/);
  });

  test("a file whose name looks like a pattern is that file", async () => {
    expect((await data.read([data.file("odd[1].txt", "odd")])).text).toBe("odd");
  });
});

describe("packed files", () => {
  const text = "शून्य and nothing else. ".repeat(100_000);

  test("gzip, of several members too", async () => {
    const both = Buffer.concat([gzipSync(text), gzipSync("end")]);
    expect((await data.read([data.file("t.txt.gz", both)])).text).toBe(`${text}end`);
    expect((await data.read([data.file("t.jsonl.gz", gzipSync('{"text":"a"}\n'))])).text).toBe("a\n");
  });

  test("Zstandard, of several frames too", async () => {
    const frame = readFileSync(new URL("../oracles/packed/text.zst", import.meta.url));
    const once = "shunya ".repeat(50_000);
    expect((await data.read([data.file("z.txt.zst", Buffer.concat([frame, frame]))])).text).toBe(once + once);
  });

  test("a packed file that is cut off or damaged is refused", async () => {
    const gzip = gzipSync(text);
    expect(await data.refusal([data.file("cut.txt.gz", gzip.subarray(0, gzip.length - 20))])).toMatch(
      /cut\.txt\.gz is cut off: its gzip data end in the middle/,
    );
    expect(await data.refusal([data.file("not.txt.gz", "plain text")])).toMatch(/not\.txt\.gz cannot be unpacked/);
    const flipped = Buffer.from(gzip);
    flipped[gzip.length - 8]! ^= 0xff; // of the checksum
    expect(await data.refusal([data.file("flip.txt.gz", flipped)])).toMatch(/flip\.txt\.gz cannot be unpacked/);
    const frame = readFileSync(new URL("../oracles/packed/text.zst", import.meta.url));
    expect(await data.refusal([data.file("cut.txt.zst", frame.subarray(0, frame.length - 5))])).toMatch(
      /cut\.txt\.zst is cut off: its Zstandard data/,
    );
    expect(await data.refusal([data.file("not.txt.zst", "plain text, and long enough for a header")])).toMatch(
      /not\.txt\.zst cannot be unpacked/,
    );
  });

  test("what is not read says what to do", async () => {
    expect(await data.refusal([data.file("a.txt.bz2", "x")])).toMatch(/\.bz2 is not read here.*bunzip2/);
    expect(await data.refusal([data.file("a.zip", "x")])).toMatch(/unzip/);
    expect(await data.refusal([data.file("a.bin.gz", "x")])).toMatch(/token file that was packed as a whole.*unpack/);
  });
});

test("plain text and token files are read where they lie, with the windows they always had", async () => {
  const text = "to be, or not to be, ".repeat(50);
  const paths = [data.file("1.txt", text), data.file("2.bin", Uint8Array.of(1, 0, 2, 0))];
  const prepared = await data.prepare(paths);
  expect(prepared.sources.flatMap(({ ranges }) => ranges.map(({ path }) => path))).toEqual(paths);
  const options = { vocabularySize: byteTokenizer.vocabularySize };
  await using now = await openRanges(
    prepared.sources.flatMap(({ ranges }) => ranges),
    options,
  );
  const before = [...Buffer.from(text), 1, 2];
  expect(now.count).toBe(before.length);
  const sampler = new RowSampler(windowPlaces(now.count, 16), { seed: 42, shuffle: true });
  for (let sample = 0; sample < 2 * sampler.rowCount; sample++) {
    const first = 16 * sampler.window(sample);
    expect([...(await now.read(first, 17))]).toEqual(before.slice(first, first + 17));
  }
  // The order of the first epoch, so that a change of the shuffle is seen.
  expect(Array.from({ length: 5 }, (_, i) => sampler.window(i))).toEqual([51, 29, 49, 32, 62]);
});

test("ten gigabytes in constant memory: 300 MB through a heap of 64", () => {
  const line = `${JSON.stringify({ text: "constant memory is what is wanted here. ".repeat(25) })}\n`;
  const path = data.file("large.jsonl", line.repeat(Math.ceil(300e6 / line.length)));
  const script = `
    const { prepareData } = await import(${JSON.stringify(new URL("../../src/data/prepare.ts", import.meta.url).href)});
    const { byteTokenizer } = await import(${JSON.stringify(new URL("../../src/tokenizer/tokenizer.ts", import.meta.url).href)});
    const options = { tokenizer: byteTokenizer, vocabularySize: 256, textField: "text", cacheFolder: ${JSON.stringify(data.cache)} };
    const before = process.resourceUsage().maxRSS;
    const { sources } = await prepareData([${JSON.stringify(path)}], options);
    console.log(JSON.stringify([sources[0].tokens, (process.resourceUsage().maxRSS - before) * 1024]));
  `;
  const flags = ["--max-old-space-size=64", "--import", "tsx", "--input-type=module", "-e", script];
  const output = execFileSync(process.execPath, flags, { cwd: new URL("../..", import.meta.url).pathname });
  const [tokens, grownBytes] = JSON.parse(output.toString()) as [number, number];
  expect(tokens).toBe(Math.ceil(300e6 / line.length) * 1001);
  expect(grownBytes).toBeLessThan(150e6);
}, 120_000);
