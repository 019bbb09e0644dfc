// Law: a checkpoint of a run with frozen parameters from a model folder holds what is trained and names the folder. A run that goes on
// from it is, to the bit, the run that never stopped, or it is refused: no base but the one that the run began with is taken.
import { cpSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkBase, withBase } from "../../src/checkpoint/base-weights.ts";
import { findTraining } from "../../src/checkpoint/find-training.ts";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { readManifest } from "../../src/checkpoint/open-training.ts";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { saveCheckpoint } from "../../src/checkpoint/save-training.ts";
import { type Manifest, manifestName, renderManifest, stepFolderName } from "../../src/checkpoint/training-manifest.ts";
import { writeModel } from "../../src/checkpoint/write-model.ts";
import { loadNative } from "../../src/device/native.ts";
import { initialize } from "../../src/index.ts";
import { createLogger } from "../../src/log/logger.ts";
import type { LanguageBatch } from "../../src/nn/models/gpt2.ts";
import { elementsOf } from "../../src/tensor/tensor.ts";
import type { StepRecord } from "../../src/zero/record.ts";
import type { WeightSource } from "../../src/zero/weights.ts";
import type { Job } from "../laws/jobs.ts";
import { buildModel, gpt2, tinyGpt2 } from "../laws/models.ts";
import { type JobAnswer, lawPool, run } from "../laws/pool.ts";
import { trainStep } from "../zero/support.ts";
import { temporaryFolder, tensorsOf } from "./files.ts";

const here = temporaryFolder();
afterAll(() => rmSync(here, { recursive: true, force: true }));
/** In two files, with values that no 16-bit type holds. */
const base = join(here, "base");
const shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];

/** @param seed another one makes another model of the same shape */
const writeBase = (folder: string, seed: number) =>
  writeModel(
    folder,
    {
      config: tinyGpt2,
      tensors: tensorsOf(tinyGpt2),
      values: async function* ({ name, shape }) {
        const one = name.endsWith("weight") && shape.length === 1 ? 1 : 0;
        yield Float32Array.from({ length: elementsOf(shape) }, (_, i) => one + 0.1 * Math.sin(i + seed + name.length));
      },
    },
    { dtype: "fp32", maxShardBytes: 70_000 },
  );

beforeAll(async () => {
  expect((await writeBase(base, 1)).files.filter((name) => name.endsWith(".safetensors"))).toEqual(shards);
});

const [half, whole] = [2, 4];
const lora = { lora: { rank: 3, alpha: 6, targets: "all-linear", dropout: 0.2 } };
/** Of two blocks 32 x 128 and 128. */
const freeze = { freeze: ["*", "!*.mlp.c_fc.*"] };
const trained = { lora: 2 * 3 * (32 + 96 + (32 + 32) + (32 + 128) + (128 + 32)), freeze: 2 * (32 * 128 + 128) };

function jobOf(shunya: object, stage: number, more: { ranks?: number; precision?: object; zero?: object } = {}): Job {
  const { ranks = 2, precision = { bf16: { enabled: true } }, zero } = more;
  return {
    model: gpt2(),
    modelFolder: base,
    config: {
      train_batch_size: 12,
      train_micro_batch_size_per_gpu: 12 / ranks,
      optimizer: { type: "AdamW", params: { lr: 1e-2, weight_decay: 0.1 } },
      zero_optimization: { stage, ...zero },
      shunya,
      ...precision,
    },
    steps: whole,
    seqLength: 16,
  };
}

/** Without the base: its folder is the one that the checkpoint names. */
function resumed({ modelFolder: _, ...job }: Job, folder: string): Job {
  return { ...job, resume: folder };
}

let folders = 0;
const newFolder = (): string => join(here, `run-${folders++}`);
const lossesOf = ({ records }: { records: readonly StepRecord[] }) =>
  records.map(({ loss, gradNorm }) => [loss, gradNorm]);

/** Runs half of a job. @returns the folder of its checkpoint */
async function saveHalf(job: Job, ranks = 2): Promise<{ folder: string; first: JobAnswer; manifest: Manifest }> {
  const parent = newFolder();
  const first = await run(ranks, { ...job, steps: half, save: { folder: parent, afterStep: half } });
  const folder = join(parent, stepFolderName(half));
  return { folder, first, manifest: await readManifest(folder) };
}

/** Elements in all files, by tensor and kind. */
async function elementsIn(folder: string): Promise<Map<string, number>> {
  const sums = new Map<string, number>();
  for (const { name } of (await readManifest(folder)).files) {
    await using file = await openSafetensors(join(folder, name));
    for (const { name: entry, elements } of file.tensors.values()) {
      const key = entry.replace(/\|\d+$/, "");
      sums.set(key, (sums.get(key) ?? 0) + elements);
    }
  }
  return sums;
}

const sumOf = (values: Iterable<number>): number => [...values].reduce((a, b) => a + b, 0);

describe("a checkpoint", () => {
  for (const [kind, shunya] of Object.entries({ lora, freeze }) as ["lora" | "freeze", object][])
    for (const [ranks, stage] of [
      [1, 0],
      [1, 3],
      [2, 0],
      [2, 3],
    ] as const)
      test(`of ${kind} holds 12 psi_t bytes, and a run that goes on from it never stopped: ${ranks} ranks, stage ${stage}`, async () => {
        const job = jobOf(shunya, stage, { ranks });
        const straight = await run(ranks, job);
        const { folder, first, manifest } = await saveHalf(job, ranks);
        const elements = await elementsIn(folder);
        expect(sumOf(elements.values())).toBe(3 * trained[kind]);
        const headers = await headerBytes(folder);
        expect(sumOf(manifest.files.map(({ bytes }) => bytes)) - headers).toBe(12 * trained[kind]);
        expect(manifest.base).toEqual({ folder: base });
        for (const [name, { trainable, baseDigest }] of Object.entries(manifest.tensors)) {
          expect(elements.has(`${name}|master`), name).toBe(trainable);
          expect(baseDigest === undefined, name).toBe(trainable);
        }
        const again = newFolder();
        const rest = await run(ranks, { ...resumed(job, folder), save: { folder: again, afterStep: whole } });
        expect([...lossesOf(first), ...lossesOf(rest)]).toEqual(lossesOf(straight));
        expect(rest.weightsHash).toBe(straight.weightsHash);
        const { base: still, tensors } = await readManifest(join(again, stepFolderName(whole)));
        expect({ base: still, tensors }).toEqual({ base: manifest.base, tensors: manifest.tensors });
      });

  test("goes on in another world, at another stage and on other tiers", async () => {
    const { folder } = await saveHalf(jobOf(lora, 3, { ranks: 3 }), 3);
    const before = await run(3, { ...resumed(jobOf(lora, 3, { ranks: 3 }), folder), steps: half });
    const onDisk = {
      offload_optimizer: { device: "nvme", nvme_path: here },
      offload_param: { device: "nvme", nvme_path: here },
    };
    for (const [ranks, stage, zero] of [
      [1, 0, {}],
      [4, 2, {}],
      [2, 3, onDisk],
    ] as const)
      expect(
        (await run(ranks, { ...resumed(jobOf(lora, stage, { ranks, zero }), folder), steps: half })).weightsHash,
      ).toBe(before.weightsHash);
  });

  test("may hold nothing of a rank", async () => {
    const job = jobOf({ freeze: ["*", "!transformer.ln_f.bias"] }, 3, { ranks: 4 });
    const { folder, first, manifest } = await saveHalf(job, 4);
    expect((await openedSizes(folder, manifest)).filter((entries) => entries === 0)).not.toEqual([]);
    const rest = await run(4, resumed(job, folder));
    expect([...lossesOf(first), ...lossesOf(rest)]).toEqual(lossesOf(await run(4, job)));
  });

  test("has digests that depend on nothing but the base: not on the world, the stage or the precision", async () => {
    const digestsOf = async (...[shunya, stage, more]: Parameters<typeof jobOf>) =>
      (await saveHalf(jobOf(shunya, stage, more), more?.ranks)).manifest;
    const digests = ({ tensors }: Manifest) =>
      Object.entries(tensors)
        .map(([name, { baseDigest }]) => [name, baseDigest])
        .sort();
    const first = digests(await digestsOf(lora, 0, { ranks: 1 }));
    for (const [stage, more] of [
      [3, { ranks: 3 }],
      [1, { ranks: 2, precision: {} }],
      [2, { ranks: 2, precision: { fp16: { enabled: true, initial_scale_power: 8 } } }],
    ] as const)
      expect(digests(await digestsOf(lora, stage, more))).toEqual(first);
  });

  test("in another precision, the base is read in that one", async () => {
    const { folder } = await saveHalf(jobOf(freeze, 3));
    const again = await run(2, {
      ...resumed(jobOf(freeze, 3, { precision: {} }), folder),
      steps: half,
      wantsWeights: true,
    });
    await using opened = await openModelFolder(base);
    for (const [name, values] of again.weights!)
      if (!name.includes("c_fc")) expect(values, name).toEqual(await opened.weights!.read(name, 0, values.length));
  });

  test("holds the frozen tensors of a run from scratch", async () => {
    const { modelFolder: _, ...scratch } = jobOf(freeze, 3);
    const { folder, manifest } = await saveHalf(scratch);
    expect(manifest.base).toBeUndefined();
    expect((await elementsIn(folder)).get("transformer.wte.weight|master")).toBe(67 * 32);
  });
});

/** How many entries each rank's file has. */
async function openedSizes(folder: string, { files }: Manifest): Promise<number[]> {
  const sizes: number[] = [];
  for (const { name } of files) {
    await using file = await openSafetensors(join(folder, name));
    sizes.push(file.tensors.size);
  }
  return sizes;
}

async function headerBytes(folder: string): Promise<number> {
  let sum = 0;
  for (const { name } of (await readManifest(folder)).files) {
    await using file = await openSafetensors(join(folder, name));
    sum += file.dataStart;
  }
  return sum;
}

describe("another base", () => {
  /** A checkpoint of a run on a copy of the base, which a test may change. */
  async function onCopy() {
    const copy = newFolder();
    cpSync(base, copy, { recursive: true });
    const job = { ...jobOf(lora, 3), modelFolder: copy };
    return { copy, job, ...(await saveHalf(job)) };
  }

  async function refused(job: Job, folder: string): Promise<string> {
    const ranks = await lawPool().attempt(2, resumed(job, folder));
    for (const { records, error } of ranks) {
      expect(records).toEqual([]);
      expect(error?.name).toBe("CheckpointError");
      // The rank that found it has no need of its own number.
      expect(error?.message.replace(/^rank \d: /, "")).toBe(ranks[0]!.error?.message.replace(/^rank \d: /, ""));
    }
    const { message } = ranks[0]!.error!;
    expect(message).toContain(folder);
    expect(message).toContain("give the base as it was, its folder or owner/name, to --model");
    return message;
  }

  test("that was moved is named, and taken where it is given", async () => {
    const { copy, job, folder, first } = await onCopy();
    const moved = newFolder();
    renameSync(copy, moved);
    expect(await refused(job, folder)).toContain(`leaves 28 frozen tensors in its base ${copy}, which is not there`);
    const again = newFolder();
    const rest = await run(2, {
      ...job,
      modelFolder: moved,
      resume: folder,
      save: { folder: again, afterStep: whole },
    });
    expect([...lossesOf(first), ...lossesOf(rest)]).toEqual(lossesOf(await run(2, jobOf(lora, 3))));
    expect((await readManifest(join(again, stepFolderName(whole)))).base).toEqual({ folder: moved });
  });

  test("one of whose elements has another bit is refused on every rank, and the tensor is named", async () => {
    const { copy, job, folder } = await onCopy();
    const bytes = readFileSync(join(copy, shards[1]!));
    bytes[bytes.length - 4]! ^= 1; // of the last element, which one rank alone reads
    writeFileSync(join(copy, shards[1]!), bytes);
    expect(await refused(job, folder)).toMatch(
      /run-\d+ is not the base that .*: other values in 1 of its 28 frozen tensors \(transformer\.ln_f\.bias\)/,
    );
    bytes[bytes.length - 4]! ^= 1;
    writeFileSync(join(copy, shards[1]!), bytes);
    expect((await run(2, resumed(job, folder))).records).toHaveLength(whole - half);
  });

  test("half of which was replaced, all of which is another model's, or that lost a file", async () => {
    const { copy, job, folder } = await onCopy();
    const other = newFolder();
    await writeBase(other, 2);
    cpSync(join(other, shards[1]!), join(copy, shards[1]!));
    expect(await refused(job, folder)).toMatch(/other values in \d+ of its 28 frozen tensors \(.* and \d+ more\)/);
    // Given is as named: it is compared.
    const given = await lawPool().attempt(2, { ...job, modelFolder: other, resume: folder });
    expect(given[1]!.error?.message).toMatch(/run-\d+ is not the base .* in 28 of its 28 frozen tensors/);
    rmSync(join(copy, shards[1]!));
    expect(await refused(job, folder)).toMatch(/in its base .*run-\d+, which cannot be read \(.*which is missing/);
    rmSync(copy, { recursive: true });
    await writeModel(
      copy,
      {
        config: { ...tinyGpt2, hidden: 16 },
        tensors: tensorsOf({ ...tinyGpt2, hidden: 16 }),
        values: async function* ({ shape }) {
          yield new Float32Array(elementsOf(shape));
        },
      },
      { dtype: "fp32", maxShardBytes: 1e6 },
    );
    expect(await refused(job, folder)).toMatch(/where tensor \S+ has shape \[\d+, 16\]; wanted \[\d+, 32\]/);
  });

  test("is found by one that reads all of it, too", async () => {
    const { copy, folder } = await onCopy();
    const open = async () =>
      withBase(await findTraining(folder, { onDamaged: (text) => expect.fail(text) }), undefined);
    {
      await using same = await open();
      await checkBase(same);
    }
    await writeBase(copy, 2);
    await using other = await open();
    await expect(checkBase(other)).rejects.toThrow(/other values in 28 of its 28 frozen tensors/);
  });
});

describe("in one process", () => {
  const job = jobOf(freeze, 0, { ranks: 1 });
  const engineOf = (options: { weights?: WeightSource; resume?: string }) =>
    initialize<LanguageBatch>({
      model: buildModel(job.model, 0),
      config: job.config,
      threads: 1,
      logger: createLogger({ write: () => {} }),
      ...options,
    });

  /** Runs the second half. @returns its losses and the next checkpoint's description */
  async function goOn(options: { weights?: WeightSource; resume: string }) {
    await using engine = await engineOf(options);
    const records: StepRecord[] = [];
    while (engine.steps < whole) records.push(await trainStep(engine, job, engine.steps));
    const { folder } = await saveCheckpoint(engine, newFolder());
    return { losses: lossesOf({ records }), manifest: await readManifest(folder) };
  }

  test("weights in memory stay in the checkpoint, whose first format is read as ever", async () => {
    await using opened = await openModelFolder(base);
    const { has, read } = opened.weights!;
    const inMemory: WeightSource = { has: has.bind(opened.weights), read: read.bind(opened.weights) };
    const straight: StepRecord[] = [];
    let folder: string;
    {
      await using engine = await engineOf({ weights: inMemory });
      for (let step = 0; step < half; step++) straight.push(await trainStep(engine, job, step));
      ({ folder } = await saveCheckpoint(engine, newFolder()));
      while (engine.steps < whole) straight.push(await trainStep(engine, job, engine.steps));
    }
    const { crc32: _, ...manifest } = (await readManifest(folder)) as Manifest & { crc32?: string };
    expect(manifest.base).toBeUndefined();
    writeFileSync(join(folder, manifestName), renderManifest({ ...manifest, formatVersion: 1 }));
    // What the files hold is taken from there, whatever weights are given beside them.
    for (const weights of [undefined, opened.weights!]) {
      const rest = await goOn({ resume: folder, ...(weights && { weights }) });
      expect(rest.losses).toEqual(lossesOf({ records: straight.slice(half) }));
      expect(rest.manifest).toMatchObject({ formatVersion: 2, tensors: manifest.tensors });
      expect(rest.manifest.base).toBeUndefined();
    }
  });

  test("tensor by tensor: what no folder has, or another folder, is in the files", async () => {
    await using opened = await openModelFolder(base);
    const weights = opened.weights!;
    const mixed: WeightSource = {
      has: (name) => weights.has(name),
      read: (name, first, count) => weights.read(name, first, count),
      folderOf: (name) => (name.endsWith(".bias") ? base : name.includes(".h.0.") ? "/another" : undefined),
    };
    await using engine = await engineOf({ weights: mixed });
    const { folder } = await saveCheckpoint(engine, newFolder());
    const { tensors } = await readManifest(folder);
    const elements = await elementsIn(folder);
    for (const [name, { trainable, baseDigest }] of Object.entries(tensors)) {
      const isInBase = !trainable && name.endsWith(".bias");
      expect([baseDigest !== undefined, elements.has(`${name}|master`)], name).toEqual([isInBase, !isInBase]);
    }
    expect((await goOn({ resume: folder })).manifest.tensors).toEqual(tensors);
  });

  test("the base may be given as weights in memory, which are compared like a folder", async () => {
    const { folder } = await saveHalf(job, 1);
    await using opened = await openModelFolder(base);
    const { weights } = opened;
    const given = (change: number): WeightSource => ({
      has: (name) => weights!.has(name),
      read: async (name, first, count) => (await weights!.read(name, first, count)).map((value) => value + change),
    });
    expect((await goOn({ resume: folder, weights: given(0) })).manifest.base).toEqual({ folder: base });
    await expect(goOn({ resume: folder, weights: given(1) })).rejects.toThrow(/is not the base that/);
    await expect(goOn({ resume: folder, weights: { has: () => false, read: weights!.read } })).rejects.toThrow(
      /the given weights have no transformer\./,
    );
  });
});

/** A description in which anything may be changed. */
interface Loose {
  base?: unknown;
  readonly tensors: Record<string, { baseDigest?: string }>;
}

describe("a description that contradicts itself", () => {
  test.each<[string, (manifest: Loose) => unknown, RegExp]>([
    ["names no folder", (m) => delete m.base, /base: found nothing; wanted the folder that holds tensor /],
    ["has a folder that is none", (m) => (m.base = { folder: 3 }), /base: found .*; wanted a folder/],
    [
      "leaves what is trained in the base",
      (m) => (m.tensors["transformer.h.0.mlp.c_fc.bias"]!.baseDigest = "0".repeat(16)),
      /tensors: found/,
    ],
    ["has a digest of another kind", (m) => (m.tensors["transformer.ln_f.bias"]!.baseDigest = "7"), /tensors: found/],
    [
      "wants in the files what is in the base",
      (m) => delete m.tensors["transformer.ln_f.bias"]!.baseDigest,
      /found 0 of 32 elements/,
    ],
  ])("%s", async (_, change, message) => {
    const { folder } = await saveHalf(jobOf(freeze, 0, { ranks: 1 }), 1);
    const { crc32: __, ...manifest } = structuredClone(await readManifest(folder)) as Manifest & { crc32?: string };
    change(manifest as Loose);
    writeFileSync(join(folder, manifestName), renderManifest(manifest));
    await expect(findTraining(folder, { onDamaged: () => {} })).rejects.toThrow(message);
  });
});

test("a digest is the sum of its elements' hashes, however they are divided", () => {
  const mask = (1n << 64n) - 1n;
  const values = Float32Array.from({ length: 1000 }, (_, i) => Math.tan(i));
  const bits = new Uint32Array(values.buffer);
  const { elementDigest } = loadNative();
  for (const first of [0, 5, 2 ** 32 - 3, 2 ** 40]) {
    let sum = 0n;
    for (const [i, value] of bits.entries()) {
      let x = (((BigInt(first + i) << 32n) | BigInt(value)) + 0x9e3779b97f4a7c15n) & mask;
      x = ((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n) & mask;
      x = ((x ^ (x >> 27n)) * 0x94d049bb133111ebn) & mask;
      sum = (sum + (x ^ (x >> 31n))) & mask;
    }
    expect(elementDigest(values, first)).toBe(sum);
    const parts = [
      [700, 1000],
      [0, 1],
      [1, 700],
    ].map(([from, end]) => elementDigest(values.subarray(from, end), first + from!));
    expect(parts.reduce((a, b) => (a + b) & mask)).toBe(sum);
  }
  expect(() => elementDigest(values, -1)).toThrow(RangeError);
  expect(() => elementDigest(new Float64Array(1) as never, 0)).toThrow(RangeError);
});
