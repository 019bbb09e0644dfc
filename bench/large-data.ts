/**
 * `node --import tsx bench/large-data.ts bytes|tokens GIGABYTES...`: trains a small model on files of these sizes and says how much memory
 * all processes together held at most. A long run of its own that needs as much room in the folder for temporary files (TMPDIR), and
 * with tokens half as much again.
 */
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { renderTable } from "../src/report/table.ts";
import { renderTokenizer } from "../src/tokenizer/render.ts";
import { endOfText, TokenizerTrainer } from "../src/tokenizer/train.ts";
import { makeText } from "./tokenize.ts";

const command = fileURLToPath(new URL("../bin/shunya.js", import.meta.url));
const chunkBytes = 32e6;
const vocabularySize = 8192;
const ranks = 2;
const steps = 20;
const sampleMs = 200;

interface Result {
  readonly gigabytes: number;
  readonly peakBytes: number;
  /** Before the first step: checking, or making tokens. */
  readonly preparationSeconds: number;
  readonly seconds: number;
}

/** Text of one chunk again and again, each time with other numbers in it, so that there are always new words. */
async function writeText(path: string, chunk: string, gigabytes: number): Promise<void> {
  const handle = await open(path, "w");
  try {
    for (let written = 0, i = 0; written < gigabytes * 1e9; i++) {
      const { bytesWritten } = await handle.write(chunk.replaceAll(".\n", `.${i.toString(36)}\n`));
      written += bytesWritten;
    }
  } finally {
    await handle.close();
  }
}

function writeModel(folder: string, chunk: string, isBytes: boolean): void {
  const shape = { n_embd: 64, n_head: 2, n_layer: 2, n_positions: 128, vocab_size: isBytes ? 256 : vocabularySize };
  writeFileSync(join(folder, "config.json"), JSON.stringify({ model_type: "gpt2", ...shape }));
  if (isBytes) return;
  const trainer = new TokenizerTrainer({ vocabularySize, specialTokens: [endOfText] });
  trainer.add(chunk.slice(0, 2e6));
  writeFileSync(join(folder, "tokenizer.json"), renderTokenizer(trainer.train()));
}

async function measure(folder: string, gigabytes: number): Promise<Result> {
  const [cache, config] = [join(folder, "cache"), join(folder, "ds_config.json")];
  writeFileSync(
    config,
    JSON.stringify({
      train_micro_batch_size_per_gpu: 4,
      zero_optimization: { stage: 2 },
      optimizer: { type: "AdamW" },
    }),
  );
  const data = ["--data", join(folder, "text.txt"), "--data-cache", cache];
  const job = ["--model", join(folder, "model"), "--config", config, "--ranks", `${ranks}`, "--steps", `${steps}`];
  const began = performance.now();
  const child = spawn(process.execPath, [command, "train", ...data, ...job], { stdio: ["ignore", "pipe", "inherit"] });
  let firstStep = 0;
  child.stdout.on("data", (text: Buffer) => {
    if (firstStep === 0 && /^ *step /m.test(text.toString())) firstStep = performance.now();
  });
  let peakBytes = 0;
  const timer = setInterval(() => {
    peakBytes = Math.max(peakBytes, treeBytes(child.pid!));
  }, sampleMs);
  const code = await new Promise<number | null>((resolve) => child.on("exit", resolve));
  clearInterval(timer);
  rmSync(cache, { recursive: true, force: true });
  if (code !== 0) throw new Error(`training ended with code ${code}`);
  const [preparationSeconds, seconds] = [firstStep - began, performance.now() - began].map((ms) => ms / 1000);
  return { gigabytes, peakBytes, preparationSeconds: preparationSeconds!, seconds: seconds! };
}

/** Resident memory of a process and all below it; what several of them have in common counts for each. */
function treeBytes(root: number): number {
  const listed = execFileSync("ps", ["-A", "-o", "pid=,ppid=,rss="], { encoding: "utf8" }).trim().split("\n");
  const rows = listed.map((line) => line.trim().split(/ +/).map(Number) as [pid: number, parent: number, kib: number]);
  const parents = new Map(rows.map(([pid, parent]) => [pid, parent]));
  const isBelow = (pid: number | undefined): boolean =>
    pid === root || (pid !== undefined && pid > 1 && isBelow(parents.get(pid)));
  return rows.reduce((sum, [pid, , kib]) => sum + (isBelow(pid) ? 1024 * kib : 0), 0);
}

const [kind, ...sizes] = process.argv.slice(2);
const gigabytes = sizes.map(Number);
if ((kind !== "bytes" && kind !== "tokens") || gigabytes.length === 0 || gigabytes.some((size) => !(size > 0))) {
  process.stderr.write("wanted: bytes or tokens, and sizes in gigabytes\n");
  process.exit(2);
}
const folder = mkdtempSync(join(tmpdir(), "shunya-large-"));
try {
  mkdirSync(join(folder, "model"));
  const chunk = makeText(chunkBytes);
  writeModel(join(folder, "model"), chunk, kind === "bytes");
  const rows: string[][] = [];
  for (const size of gigabytes) {
    await writeText(join(folder, "text.txt"), chunk, size);
    const { peakBytes, preparationSeconds, seconds } = await measure(folder, size);
    rows.push([`${size} GB`, `${(peakBytes / 1e6).toFixed(0)} MB`, preparationSeconds.toFixed(1), seconds.toFixed(1)]);
  }
  const headers = [
    `text, ${kind === "bytes" ? "bytes are tokens" : "8,192 tokens"}`,
    "peak of all processes",
    "to step 1, s",
    "all, s",
  ];
  const columns = headers.map((header, i) => ({ header, align: i === 0 ? ("left" as const) : ("right" as const) }));
  process.stdout.write(`${renderTable({ columns, rows })}\n`);
} finally {
  rmSync(folder, { recursive: true });
}
