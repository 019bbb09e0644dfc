// Data that were made tokens are kept: found again, made anew when anything they depend on changes, never half there.
import { execFile } from "node:child_process";
import { readdirSync, readFileSync, renameSync, statSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { byteTokenizer } from "../../src/tokenizer/tokenizer.ts";
import { DataFolder } from "./prepared.ts";
import { wordTokenizer } from "./word-tokenizer.ts";

const jsonl = (count: number): string => '{"text":"abc"}\n'.repeat(count);
const entries = (data: DataFolder): string[] => readdirSync(data.cache).sort();

/** How often files were read: a run that finds its tokens reads none. */
async function reads(data: DataFolder, args: string[], options: Parameters<DataFolder["prepare"]>[1] = {}) {
  let count = 0;
  await data.prepare(args, { ...options, onProgress: () => count++ });
  return count;
}

describe("an entry", () => {
  const data = new DataFolder();
  const path = data.file("a.jsonl", jsonl(10));

  test("is made once, and its notices are told every time", async () => {
    const odd = data.file("odd.jsonl", `${jsonl(2)}oops\n`);
    const first = await data.read([odd]);
    expect(first.notices).toMatch(/not JSON: odd\.jsonl:3/);
    expect(await data.read([odd])).toEqual(first);
    expect(await reads(data, [odd])).toBe(0);
    const [json, tokens] = entries(data);
    expect([json, tokens]).toEqual([expect.stringMatching(/^[0-9a-f]{32}\.json$/), expect.stringMatching(/\.tokens$/)]);
    expect(JSON.parse(readFileSync(join(data.cache, json!), "utf8"))).toMatchObject({ tokens: 8, documents: 2 });
  });

  test("has the time of its last use, so that old ones can be told", async () => {
    const used = new DataFolder();
    const data = [used.file("a.jsonl", jsonl(3))];
    await used.prepare(data);
    const paths = entries(used).map((name) => join(used.cache, name));
    expect(paths).toHaveLength(2);
    const lastYear = Date.now() / 1000 - 3e7;
    for (const path of paths) utimesSync(path, lastYear, lastYear);
    await used.prepare([used.file("other.jsonl", jsonl(4))]);
    expect(paths.every((path) => statSync(path).mtimeMs / 1000 < lastYear + 1)).toBe(true);
    expect(await reads(used, data)).toBe(0);
    expect(paths.every((path) => statSync(path).mtimeMs / 1000 > lastYear + 1e7)).toBe(true);
  });

  test("depends on file, tokenizer and options", async () => {
    expect(await reads(data, [path])).toBe(1);
    expect(await reads(data, [path])).toBe(0);
    expect(await reads(data, [path], { tokenizer: wordTokenizer, vocabularySize: 1000 })).toBe(1);
    data.file("b.jsonl", '{"text":"abc","body":"d"}\n');
    expect(await reads(data, [data.at("b.jsonl")], { textField: "text" })).toBe(1);
    expect((await data.read([data.at("b.jsonl")], { textField: "body" })).text).toBe("d\n");
    const { mtimeMs } = statSync(path);
    utimesSync(path, new Date(), new Date(mtimeMs + 5000));
    expect(await reads(data, [path])).toBe(1);
    const tokenizerFiles = [data.file("tokenizer.json", "{}")];
    expect(await reads(data, [path], { tokenizerFiles })).toBe(1);
    expect(await reads(data, [path], { tokenizerFiles })).toBe(0);
    data.file("tokenizer.json", "{ }");
    expect(await reads(data, [path], { tokenizerFiles })).toBe(1);
    renameSync(path, data.at("moved.jsonl"));
    expect(await reads(data, [data.at("moved.jsonl")])).toBe(1);
  });

  test("that is damaged is made again", async () => {
    const other = new DataFolder();
    const file = other.file("c.jsonl", jsonl(10));
    const good = await other.read([file]);
    const [json, tokens] = entries(other).map((name) => join(other.cache, name)) as [string, string];
    truncateSync(tokens, 5);
    expect(await other.read([file])).toEqual(good);
    writeFileSync(json, "{");
    expect(await other.read([file])).toEqual(good);
  });

  test("is not left half-made, and old leftovers of killed runs go", async () => {
    const other = new DataFolder();
    expect(await other.refusal([other.file("bad.txt.gz", "no gzip")])).toMatch(/cannot be unpacked/);
    expect(entries(other)).toEqual([]);
    for (const [name, ageSeconds] of [
      [".old.tokens.partial", 90_000],
      [".new.tokens.partial", 60],
    ] as const) {
      writeFileSync(join(other.cache, name), "x");
      utimesSync(join(other.cache, name), new Date(), new Date(Date.now() - 1000 * ageSeconds));
    }
    await other.prepare([other.file("fine.jsonl", jsonl(1))]);
    expect(entries(other).filter((name) => name.startsWith("."))).toEqual([".new.tokens.partial"]);
  });

  test("of a file that changes while it is read is refused", async () => {
    const other = new DataFolder();
    const file = other.file("grows.jsonl", jsonl(1000));
    const tokenizer = {
      ...byteTokenizer,
      name: "slow",
      encode: (text: string) => {
        writeFileSync(file, jsonl(1001));
        return byteTokenizer.encode(text);
      },
    };
    expect(await other.refusal([file], { tokenizer })).toMatch(/grows\.jsonl changed while it was read/);
    expect(entries(other)).toEqual([]);
  });
});

test("runs that make one entry at the same moment agree, and nothing remains aside", async () => {
  const data = new DataFolder();
  const file = data.file("shared.jsonl", jsonl(200_000));
  const src = new URL("../../src/data", import.meta.url).href;
  const script = `
    const { prepareData } = await import("${src}/prepare.ts");
    const { byteTokenizer } = await import("${src}/../tokenizer/tokenizer.ts");
    const options = { tokenizer: byteTokenizer, vocabularySize: 256, textField: "text", cacheFolder: ${JSON.stringify(data.cache)} };
    console.log((await prepareData([${JSON.stringify(file)}], options)).sources[0].tokens);`;
  const cwd = new URL("../..", import.meta.url).pathname;
  const runs = Array.from({ length: 4 }, () =>
    promisify(execFile)(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], { cwd }),
  );
  for (const { stdout } of await Promise.all(runs)) expect(stdout.trim()).toBe("800000");
  expect(entries(data).map((name) => name.split(".").at(-1))).toEqual(["json", "tokens"]);
  const { tokens } = await data.tokens([file]);
  expect(tokens.length).toBe(800_000);
  expect(Buffer.from(tokens.slice(-4)).toString()).toBe("abc\n");
}, 60_000);
