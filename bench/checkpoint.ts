/**
 * Checkpoints of GPT-2 124M (bf16, Adam) against the drive, measured in the same run, and what a save costs a step. Everything takes
 * turns, round by round.
 */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BlockFile } from "../src/checkpoint/block-file.ts";
import { DirectFile } from "../src/checkpoint/direct-file.ts";
import { findTraining } from "../src/checkpoint/find-training.ts";
import { readManifest } from "../src/checkpoint/open-training.ts";
import { saveCheckpoint } from "../src/checkpoint/save-training.ts";
import { resolveConfig } from "../src/config/resolve.ts";
import { loadNative } from "../src/device/native.ts";
import { median, SwapSpeed, usualRecordBytes } from "../src/device/swap-speed.ts";
import { initializeIn } from "../src/launch/initialize.ts";
import { joinWorld } from "../src/launch/world.ts";
import { createLogger } from "../src/log/logger.ts";
import { Gpt2, type LanguageBatch } from "../src/nn/models/gpt2.ts";
import { gpt2Configs } from "../src/nn/models/gpt2-config.ts";
import type { Engine } from "../src/zero/engine.ts";

export interface CheckpointResult {
  readonly bytes: number;
  /** Medians in 10^9 bytes a second. */
  readonly rates: Readonly<Record<Work, number>>;
  /** Medians over rounds of saving / writing a new file of as many bytes, and of checking / the drive's reading, in the same round. */
  readonly writeShare: number;
  readonly readShare: number;
}

const works = [
  "a new file",
  "save",
  "a swap file's reads",
  "a file's reads",
  "check",
  "a new engine",
  "resume",
] as const;
type Work = (typeof works)[number];
const stepKinds = ["alone", "after a save that is awaited", "beside a save"] as const;
type StepKind = (typeof stepKinds)[number];

const config = resolveConfig({
  worldSize: 1,
  overrides: [
    ["bf16.enabled", true],
    ["train_micro_batch_size_per_gpu", 2],
  ],
});
const seq = 512;
const model = () => new Gpt2(gpt2Configs.gpt2);

const engineOf = (resume?: string, threads = 1): Promise<Engine<LanguageBatch>> =>
  initializeIn<LanguageBatch>(joinWorld({ threads }), config, {
    model: model(),
    logger: createLogger({ write: () => {} }),
    ...(resume !== undefined && { resume }),
  });

async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1000;
}

async function trainStep(engine: Engine<LanguageBatch>): Promise<void> {
  const ids = Int32Array.from({ length: 2 * seq + 1 }, (_, i) => (i * 7919) % 50257);
  const shape = [2, seq];
  const batch = { inputs: { data: ids.slice(0, -1), shape }, targets: { data: ids.slice(1), shape } };
  await engine.backward(await engine.forward(batch));
  await engine.step();
  await engine.device.reached(engine.device.mark("compute"));
}

/** Runs `body` with a folder that is gone afterwards. */
async function within<T>(body: (folder: string) => Promise<T>): Promise<T> {
  const folder = fileURLToPath(new URL("../build/bench-checkpoint", import.meta.url));
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  try {
    return await body(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @param rounds after one that is not counted */
export const measureCheckpoint = (rounds = 5): Promise<CheckpointResult> =>
  within((folder) => measureRates(folder, rounds));

/** Medians of seconds of a step alone, of a step after a save that is awaited, of a step beside a save. */
export const measureSaving = (rounds = 5): Promise<Readonly<Record<StepKind, number>>> =>
  within((folder) => measureSteps(folder, rounds));

async function measureSteps(folder: string, rounds: number): Promise<Record<StepKind, number>> {
  await using engine = await engineOf();
  const seconds: Record<StepKind, number[]> = {
    alone: [],
    "after a save that is awaited": [],
    "beside a save": [],
  };
  for (let round = 0; round <= rounds; round++)
    for (const kind of stepKinds) {
      let saving: Promise<unknown> | undefined;
      // A save is asked for after a step, so that what it costs is seen in the next one.
      const found = await secondsOf(async () => {
        if (kind !== "alone") saving = saveCheckpoint(engine, folder, { keep: 1 });
        if (kind === "after a save that is awaited") await saving;
        await trainStep(engine);
      });
      await saving;
      if (round > 0) seconds[kind].push(found);
    }
  return Object.fromEntries(stepKinds.map((kind) => [kind, median(seconds[kind])])) as Record<StepKind, number>;
}

/** What the drive gives a new file: blocks of noise, flushed, without states or checksums. */
async function writeNew(path: string, bytes: number): Promise<void> {
  rmSync(path, { force: true });
  const file = await BlockFile.create(path);
  for (let done = 0; done < bytes; done += noise.length) await file.add(noise.subarray(0, bytes - done));
  await file.end();
  await file.close();
}

/** What the drive gives of the very bytes that are checked: requests of 2 MiB, eight under way, nothing done with them. */
async function readRaw(path: string, bytes: number): Promise<void> {
  const file = await DirectFile.open(path);
  let next = 0;
  const reads = Array.from({ length: 8 }, async () => {
    const memory = new Uint8Array(loadNative().alignedMemory(requestBytes));
    while (next < bytes) {
      next += requestBytes;
      await file.read(memory, next - requestBytes);
    }
  });
  await Promise.all(reads);
  await file.close();
}

const requestBytes = 2 * 2 ** 20;
const noise = new Uint8Array(new Float64Array(2 ** 19).map(() => Math.random()).buffer);

async function measureRates(folder: string, rounds: number): Promise<CheckpointResult> {
  await using engine = await engineOf();
  const saved = await saveCheckpoint(engine, folder, { keep: 1 });
  const [file] = (await readManifest(saved.folder)).files;
  const records = 2 * Math.round(saved.bytes / usualRecordBytes / 2);
  using speed = new SwapSpeed({
    cases: [{ folders: [folder], settings: { blockBytes: 2 ** 20, queueDepth: 8, parallelism: 1 } }],
    recordBytes: usualRecordBytes,
    records,
  });
  await speed.pass(0, "write");
  const rateOf = async (work: () => Promise<unknown>): Promise<number> => saved.bytes / (await secondsOf(work));
  const measure: Record<Work, () => Promise<number>> = {
    // Not SwapSpeed's: to write blocks again that a file has is faster than to give it new ones.
    "a new file": () => rateOf(() => writeNew(join(folder, "new"), saved.bytes)),
    save: () => rateOf(() => saveCheckpoint(engine, folder, { keep: 1 })),
    // The drive at its best, in the disk tier's own way: blocks that were there before.
    "a swap file's reads": () => speed.pass(0, "read"),
    "a file's reads": () => rateOf(() => readRaw(join(saved.folder, file!.name), file!.bytes)),
    // Written around the page cache, so these bytes come from the drive.
    check: () => rateOf(async () => (await findTraining(saved.folder, { onDamaged: () => {} }))[Symbol.asyncDispose]()),
    // What of resuming is no reading: memory that the system clears, and values for all of it.
    "a new engine": () => rateOf(async () => (await engineOf(undefined, 2))[Symbol.asyncDispose]()),
    resume: () => rateOf(async () => (await engineOf(saved.folder, 2))[Symbol.asyncDispose]()),
  };
  const rates = Object.fromEntries(works.map((work) => [work, [] as number[]])) as Record<Work, number[]>;
  for (let round = 0; round <= rounds; round++)
    for (const work of works) {
      const rate = await measure[work]();
      if (round > 0) rates[work].push(rate);
    }
  const shareOf = (work: Work, limit: Work): number => median(rates[work].map((rate, i) => rate / rates[limit][i]!));
  return {
    bytes: saved.bytes,
    rates: Object.fromEntries(works.map((work) => [work, median(rates[work]) / 1e9])) as Record<Work, number>,
    writeShare: shareOf("save", "a new file"),
    readShare: shareOf("check", "a file's reads"),
  };
}
