/**
 * Text to tokens, Hindi and English: reading alone, the library alone, this thread, and workers. Text and tokenizer (32,768 tokens) are
 * made here, with words as frequent and as new as in real text (Zipf), so that nothing but this folder is needed.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Tokenizer as Library } from "@huggingface/tokenizers";
import type { TextTokenizer } from "../src/data/encode-batch.ts";
import { type Encoders, inThisThread, WorkerEncoders } from "../src/data/encoders.ts";
import { Findings } from "../src/data/findings.ts";
import { tokenize } from "../src/data/tokenize.ts";
import { renderTokenizer } from "../src/tokenizer/render.ts";
import { openTokenizer } from "../src/tokenizer/tokenizer.ts";
import { endOfText, TokenizerTrainer } from "../src/tokenizer/train.ts";
import { median } from "./ranks.ts";

export interface TokenizeResult {
  readonly name: string;
  readonly megabytesPerSecond: number;
  readonly tokensPerSecond: number;
  /** Of all threads. */
  readonly cpuSecondsPerMegabyte: number;
}

const textBytes = 48e6;
/** The library alone is slow. */
const libraryBytes = 2e6;
const rounds = 3;

/** Numbers in [0, 1) that are the same in every run. */
function* random(): Generator<number, never> {
  for (let state = 1; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

/** Lines of words, of which the r-th is about 1/r as frequent as the first. */
export function makeText(bytes: number): string {
  const numbers = random();
  const below = (n: number): number => Math.floor(numbers.next().value * n);
  const pick = (list: readonly string[]): string => list[below(list.length)]!;
  const latin = { starts: [..."bcdfghklmnprstvw", "th", "st", "pr", ""], ends: [..."aeiou", "er", "ing", "on", "al"] };
  const devanagari = { starts: [..."कखगचजटडतथदनपबभमयरलवशसह"], ends: ["", "ा", "ि", "ी", "ु", "े", "ो", "ं", "्र"] };
  const word = (r: number): string => {
    const { starts, ends } = r % 2 === 0 ? latin : devanagari;
    return Array.from({ length: 1 + below(4) }, () => pick(starts) + pick(ends)).join("");
  };
  const words = Array.from({ length: 300_000 }, (_, r) => word(r));
  const parts: string[] = [];
  for (let made = 0; made < bytes; ) {
    const frequent = words[Math.floor(words.length ** numbers.next().value) - 1] ?? words[0]!;
    const part = frequent + pick([" ", " ", " ", " ", " ", ", ", "। ", ".\n"]);
    parts.push(part);
    made += Buffer.byteLength(part);
  }
  return parts.join("");
}

export async function measureTokenize(workers: number): Promise<TokenizeResult[]> {
  const folder = mkdtempSync(join(tmpdir(), "shunya-bench-"));
  try {
    const text = makeText(textBytes);
    const path = join(folder, "text.txt");
    writeFileSync(path, text);
    const trainer = new TokenizerTrainer({ vocabularySize: 32768, specialTokens: [endOfText] });
    trainer.add(text.slice(0, 4e6));
    const json = renderTokenizer(trainer.train());
    writeFileSync(join(folder, "tokenizer.json"), json);
    return await measureAll(folder, path, text.slice(0, libraryBytes), json, workers);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function measureAll(folder: string, path: string, sample: string, json: string, workers: number) {
  const tokenizer = await openTokenizer(folder);
  const module = new URL("../src/tokenizer/tokenizer.ts", import.meta.url).href;
  const none: Encoders = { ...inThisThread(tokenizer), encode: async () => new Uint32Array() };
  const run = (encoders: () => Encoders | Promise<Encoders>) => async () => {
    await using used = await encoders();
    return { bytes: textBytes, tokens: await tokenizeFile(folder, path, tokenizer, used) };
  };
  const cases: Record<string, () => Promise<{ bytes: number; tokens: number }>> = {
    "reading, cutting and writing alone": run(() => none),
    "the library alone, one thread": async () => {
      const { ids } = new Library(JSON.parse(json) as object, {}).encode(sample);
      return { bytes: Buffer.byteLength(sample), tokens: ids.length };
    },
    "one thread": run(async () => inThisThread(await openTokenizer(folder))),
    [`${workers} workers`]: run(() => new WorkerEncoders({ module, argument: folder }, workers)),
  };
  const found = Object.keys(cases).map((name) => ({ name, seconds: [] as number[], cpu: [] as number[], tokens: 0 }));
  for (let round = 0; round < rounds; round++) {
    for (const row of found) {
      const [began, cpu] = [performance.now(), process.cpuUsage()];
      const { bytes, tokens } = await cases[row.name]!();
      const { user, system } = process.cpuUsage(cpu);
      row.seconds.push((performance.now() - began) / 1000 / bytes);
      row.cpu.push((user + system) / bytes);
      row.tokens = tokens / bytes;
    }
  }
  return found.map(({ name, seconds, cpu, tokens }) => ({
    name,
    megabytesPerSecond: 1e-6 / median(seconds),
    tokensPerSecond: tokens / median(seconds),
    cpuSecondsPerMegabyte: median(cpu),
  }));
}

async function tokenizeFile(folder: string, path: string, tokenizer: TextTokenizer, encoders: Encoders) {
  const handle = await open(join(folder, "tokens"), "w");
  try {
    const files = [{ path, format: "text", packing: "none" }] as const;
    const reading = { isSearched: false, findings: new Findings(), textField: "text", onRead: () => {} };
    return (await tokenize(handle, { tokenizer, encoders, files, ...reading })).tokens;
  } finally {
    await handle.close();
  }
}
