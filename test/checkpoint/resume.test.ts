// Law: a run that was saved and resumed is, to the bit, the run that never stopped; at other world sizes and stages the states
// are the same to the bit and training goes on.
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { findTraining } from "../../src/checkpoint/find-training.ts";
import { stepFolderName } from "../../src/checkpoint/training-manifest.ts";
import type { StepRecord } from "../../src/zero/record.ts";
import type { Job } from "../laws/jobs.ts";
import { gpt2, type ModelSpec } from "../laws/models.ts";
import { lawPool, run } from "../laws/pool.ts";
import { temporaryFolder } from "./files.ts";

const here = temporaryFolder();
afterAll(() => rmSync(here, { recursive: true, force: true }));
const half = 5;
const whole = 10;

interface Case {
  readonly ranks: number;
  readonly stage: number;
  readonly precision: "fp32" | "bf16" | "fp16";
  readonly accumulation: number;
  /** Left out: a GPT-2 with dropout. */
  readonly model?: ModelSpec;
  /** fp16: the scale begins at 2 to this power. From 22 on the first steps overflow: the checkpoint falls among skips. */
  readonly scalePower?: number;
  /** Where optimizer states and parameters live. */
  readonly offload?: readonly ["cpu" | "nvme", "none" | "cpu" | "nvme"];
  readonly isDelayed?: boolean;
  readonly optimizer?: { readonly type: string; readonly params: { readonly lr: number; readonly momentum?: number } };
}

const schedule = {
  type: "WarmupDecayLR",
  params: { warmup_min_lr: 0, warmup_max_lr: 0.01, warmup_num_steps: 3, total_num_steps: 12 },
};

function jobOf(c: Case): Job {
  const precision = {
    fp32: {},
    bf16: { bf16: { enabled: true } },
    fp16: { fp16: { enabled: true, initial_scale_power: c.scalePower ?? 8, loss_scale_window: 3 } },
  }[c.precision];
  return {
    model: c.model ?? gpt2({ embeddingDropout: 0.1, attentionDropout: 0.1, residualDropout: 0.1 }),
    config: {
      train_micro_batch_size_per_gpu: 2,
      gradient_accumulation_steps: c.accumulation,
      gradient_clipping: 0.5,
      optimizer: c.optimizer ?? { type: "AdamW", params: { lr: 0.01, weight_decay: 0.1 } },
      scheduler: schedule,
      zero_optimization: {
        stage: c.stage,
        ...(c.offload && {
          offload_optimizer: { device: c.offload[0], nvme_path: here },
          offload_param: { device: c.offload[1], nvme_path: here },
        }),
      },
      shunya: { delayed_update: c.isDelayed ?? false },
      ...precision,
    },
    steps: whole,
    seqLength: 16,
  };
}

/** Everything of a step that is not time or memory. */
const numbersOf = ({ step, loss, gradNorm, learningRate, lossScale, skipped }: StepRecord) => ({
  ...{ step, loss, gradNorm, learningRate, lossScale, skipped },
});

let folders = 0;
const newFolder = (): string => join(here, String(folders++));

const cases: readonly Case[] = [
  ...[0, 1, 2, 3].map((stage) => ({ ranks: 2, stage, precision: "fp32" as const, accumulation: 1 })),
  ...[0, 1, 2, 3].map((stage) => ({ ranks: 2, stage, precision: "bf16" as const, accumulation: 2 })),
  { ranks: 1, stage: 0, precision: "fp32", accumulation: 1 },
  { ranks: 3, stage: 3, precision: "bf16", accumulation: 1 },
  { ranks: 7, stage: 3, precision: "fp32", accumulation: 1 },
  ...[0, 1, 2, 3].map((stage) => ({ ranks: 2, stage, precision: "fp16" as const, accumulation: 1 })),
  { ranks: 2, stage: 2, precision: "fp16", accumulation: 2, scalePower: 22 },
  ...[
    { type: "Lion", params: { lr: 0.001 } },
    { type: "SGD", params: { lr: 0.1, momentum: 0.9 } },
    { type: "SGD", params: { lr: 0.1 } },
    { type: "Adagrad", params: { lr: 0.01 } },
  ].map((optimizer) => ({ ranks: 2, stage: 3, precision: "bf16" as const, accumulation: 1, optimizer })),
  ...(
    [
      { stage: 1, offload: ["cpu", "none"] },
      { stage: 3, offload: ["nvme", "cpu"] },
      { stage: 3, offload: ["nvme", "nvme"] },
      { stage: 2, offload: ["cpu", "none"], isDelayed: true },
      { stage: 3, offload: ["nvme", "nvme"], isDelayed: true },
    ] as const
  ).map((c) => ({ ...c, ranks: 2, precision: "bf16" as const, accumulation: 1 })),
  // Frozen tensors, some smaller than the world, one that is never used.
  ...[1, 3].map((stage) => ({
    ...{ ranks: 3, stage, precision: "bf16" as const, accumulation: 1 },
    model: { kind: "odd" as const, hidden: 20, vocabulary: 31 },
  })),
];

test("damage that one rank meets while it fills its memory ends all of them, before the first step", async () => {
  const folder = newFolder();
  const job = jobOf({ ranks: 2, stage: 3, precision: "bf16", accumulation: 1 });
  const saved = await run(2, { ...job, steps: half, save: { folder, afterStep: half } });
  const step = join(folder, stepFolderName(half));
  // Of rank 1's own file, which at the same number of ranks it alone reads beyond the header.
  const file = join(step, "rank-0001-of-0002.safetensors");
  const bytes = readFileSync(file);
  bytes[bytes.length - 1]! ^= 1;
  writeFileSync(file, bytes);
  const ranks = await lawPool().attempt(2, { ...job, resume: step });
  for (const { records, error } of ranks) {
    expect(records).toEqual([]);
    expect(error?.name).toBe("CheckpointError");
    expect(error?.message).toMatch(/rank-0001-of-0002\.safetensors.* it is damaged/s);
  }
  bytes[bytes.length - 1]! ^= 1;
  writeFileSync(file, bytes);
  expect((await run(2, { ...job, resume: step })).records).toHaveLength(whole - half);
  expect(saved.records).toHaveLength(half);
});

describe("resumed as if it had never stopped", () => {
  for (const c of cases) {
    const { type = "AdamW", params } = c.optimizer ?? {};
    const scale = c.scalePower === undefined ? "" : ` from 2^${c.scalePower}`;
    const kind = c.model === undefined ? "" : `, ${c.model.kind} model`;
    const place = c.offload
      ? `, states on ${c.offload[0]}, parameters on ${c.offload[1]}${c.isDelayed ? ", delayed" : ""}`
      : "";
    const rule = `${type}${params?.momentum ? " with momentum" : ""}`;
    test(`${c.ranks} ranks, stage ${c.stage}, ${c.precision}${scale}, ${c.accumulation} micro-batches, ${rule}${kind}${place}`, async () => {
      const job = jobOf(c);
      const folder = newFolder();
      const straight = await run(c.ranks, job);
      const first = await run(c.ranks, { ...job, steps: half, save: { folder, afterStep: half } });
      const resumed = await run(c.ranks, { ...job, resume: folder });
      expect([...first.records, ...resumed.records].map(numbersOf)).toEqual(straight.records.map(numbersOf));
      expect(resumed.weightsHash).toBe(straight.weightsHash);
      expect(first.weightsHash).not.toBe(straight.weightsHash);
      // The case is what its name says: skips on both sides of the checkpoint, or none.
      const skips = [first, resumed].map(({ records }) => records.some((r) => r.skipped));
      expect(skips).toEqual(c.scalePower === undefined ? [false, false] : [true, true]);
      rmSync(folder, { recursive: true });
    });
  }

  test("with states on disk, then on the device, then on the host", async () => {
    const c = { ranks: 2, stage: 3, precision: "bf16", accumulation: 1 } as const;
    const [onDisk, onDevice, onHost] = [
      jobOf({ ...c, offload: ["nvme", "nvme"] }),
      jobOf(c),
      jobOf({ ...c, offload: ["cpu", "cpu"] }),
    ];
    const straight = await run(2, onDevice);
    const [first, second] = [newFolder(), newFolder()];
    await run(2, { ...onDisk, steps: 3, save: { folder: first, afterStep: 3 } });
    await run(2, { ...onDevice, steps: 6, resume: first, save: { folder: second, afterStep: 6 } });
    const last = await run(2, { ...onHost, resume: second });
    expect(last.records.map(numbersOf)).toEqual(straight.records.slice(6).map(numbersOf));
    expect(last.weightsHash).toBe(straight.weightsHash);
  });

  test("saving changes nothing in the run that saves", async () => {
    const job = jobOf({ ranks: 2, stage: 3, precision: "bf16", accumulation: 1 });
    const folder = newFolder();
    const straight = await run(2, job);
    const saving = await run(2, { ...job, save: { folder, afterStep: half } });
    expect(saving.records.map(numbersOf)).toEqual(straight.records.map(numbersOf));
    expect(saving.weightsHash).toBe(straight.weightsHash);
    const resumed = await run(2, { ...job, resume: join(folder, stepFolderName(half)) });
    expect(resumed.weightsHash).toBe(straight.weightsHash);
  });
});

/** Every state in a checkpoint, by kind and tensor. */
async function statesOf(folder: string): Promise<Map<string, Float32Array>> {
  await using saved = await findTraining(folder, { onDamaged: (text) => expect.fail(text) });
  const states = new Map<string, Float32Array>();
  for (const [name, { shape, trainable }] of Object.entries(saved.manifest.tensors))
    for (const kind of trainable ? saved.manifest.kinds : (["master"] as const)) {
      const values = new Float32Array(shape.reduce((a, b) => a * b, 1));
      await saved.states.read(name, kind, 0, values);
      states.set(`${kind} of ${name}`, values);
    }
  return states;
}

describe("other worlds and stages", () => {
  const job = (ranks: number, stage: number): Job => ({
    ...jobOf({ ranks, stage, precision: "bf16", accumulation: 1 }),
    config: {
      ...jobOf({ ranks, stage, precision: "bf16", accumulation: 1 }).config,
      train_batch_size: 12,
      train_micro_batch_size_per_gpu: 12 / ranks,
    },
  });

  test("files are alike at all stages", async () => {
    const states: Map<string, Float32Array>[] = [];
    for (const stage of [0, 1, 2, 3]) {
      const folder = newFolder();
      await run(2, { ...job(2, stage), steps: half, save: { folder, afterStep: half } });
      states.push(await statesOf(folder));
    }
    for (const other of states.slice(1)) expect(other).toEqual(states[0]);
    expect([...states[0]!.keys()].some((key) => key.startsWith("secondMoment of "))).toBe(true);
  });

  test("saved by 3 ranks at stage 3, gone on with by 1, 2 and 4 at others: the same states, and the same next batch", async () => {
    const folder = newFolder();
    await run(3, { ...job(3, 3), steps: half, save: { folder, afterStep: half } });
    const straight = await run(3, job(3, 3));
    const before = await statesOf(folder);
    for (const [ranks, stage] of [
      [1, 0],
      [2, 1],
      [4, 2],
    ] as const) {
      const again = newFolder();
      const saved = await run(ranks, {
        ...job(ranks, stage),
        resume: folder,
        steps: half + 1,
        save: { folder: again, afterStep: half + 1 },
      });
      // The first loss is of the same samples with the same weights, but added up by other ranks.
      expect(saved.records[0]!.step).toBe(half + 1);
      expect(saved.records[0]!.loss).toBeCloseTo(straight.records[half]!.loss, 5);
      expect(saved.records[0]!.learningRate).toBe(straight.records[half]!.learningRate);
      expect([...(await statesOf(again)).keys()].sort()).toEqual([...before.keys()].sort());
    }
  });

  test("a resumed run that does nothing saves the same states, whoever holds them", async () => {
    const folder = newFolder();
    await run(3, { ...job(3, 3), steps: half, save: { folder, afterStep: half } });
    const before = await statesOf(folder);
    for (const [ranks, stage] of [
      [1, 0],
      [4, 2],
    ] as const) {
      const again = newFolder();
      await run(ranks, { ...job(ranks, stage), resume: folder, steps: half, save: { folder: again, afterStep: half } });
      expect(await statesOf(again)).toEqual(before);
    }
  });
});
