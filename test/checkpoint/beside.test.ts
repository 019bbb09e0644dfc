// Law: training goes on while a checkpoint is written, and the checkpoint is of the step at which it was asked for, to the bit. The
// test holds the save half way, so nothing depends on how fast anything is.
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { rankFileName, stepFolderName } from "../../src/checkpoint/training-manifest.ts";
import type { StepRecord } from "../../src/zero/record.ts";
import type { Job, SavingAnswer } from "../laws/jobs.ts";
import { gpt2 } from "../laws/models.ts";
import { lawPool, run } from "../laws/pool.ts";
import { temporaryFolder } from "./files.ts";

const here = temporaryFolder();
afterAll(() => rmSync(here, { recursive: true, force: true }));

interface Case {
  readonly ranks: number;
  readonly stage: number;
  /** Where optimizer states and parameters live; left out: on the device. */
  readonly offload?: readonly ["cpu" | "nvme", "none" | "cpu" | "nvme"];
  readonly isDelayed?: boolean;
  /** Sub-groups in memory at once. */
  readonly slots?: number;
  readonly precision?: "fp32";
}

const cases: readonly Case[] = [
  { ranks: 1, stage: 0 },
  { ranks: 2, stage: 0 },
  { ranks: 2, stage: 0, precision: "fp32" },
  { ranks: 2, stage: 3 },
  { ranks: 1, stage: 3, offload: ["nvme", "nvme"], slots: 1 },
  { ranks: 2, stage: 3, offload: ["cpu", "cpu"] },
  { ranks: 2, stage: 3, offload: ["nvme", "none"], slots: 2 },
  { ranks: 2, stage: 3, offload: ["nvme", "nvme"], isDelayed: true },
];

function jobOf({ stage, offload, isDelayed, slots, precision }: Case): Job {
  return {
    model: gpt2({ embeddingDropout: 0.1 }),
    config: {
      train_micro_batch_size_per_gpu: 2,
      optimizer: { type: "AdamW", params: { lr: 0.01 } },
      bf16: { enabled: precision === undefined },
      zero_optimization: {
        stage,
        ...(offload && {
          sub_group_size: 4096,
          stage3_param_persistence_threshold: 0,
          offload_optimizer: { device: offload[0], nvme_path: here, buffer_count: slots ?? 4 },
          offload_param: { device: offload[1], nvme_path: here, buffer_count: slots ?? 4 },
        }),
      },
      shunya: { delayed_update: isDelayed ?? false },
    },
    steps: 6,
    seqLength: 16,
  };
}

const numbersOf = ({ step, loss, gradNorm }: StepRecord) => ({ step, loss, gradNorm });
const place = ({ offload, isDelayed, slots }: Case): string =>
  offload
    ? `, states on ${offload[0]}, parameters on ${offload[1]}${isDelayed ? ", delayed" : ""}, ${slots ?? 4} slots`
    : "";

for (const [i, c] of cases.entries())
  test(`${c.ranks} ranks, stage ${c.stage}, ${c.precision ?? "bf16"}${place(c)}`, async () => {
    const job = jobOf(c);
    const [standing, beside] = [join(here, `standing-${i}`), join(here, `beside-${i}`)];
    const still = await run(c.ranks, { ...job, save: { folder: standing, afterStep: 2 } });
    const going = await run(c.ranks, { ...job, save: { folder: beside, afterStep: 2, beside: {} } });
    // The passes of step 3 went on, its update waited, steps up to the last went on while nothing was published.
    const wanted: SavingAnswer = { updateWaited: true, publishedAtStep6: false };
    for (const { saving } of going.ranks) expect(saving).toEqual(wanted);
    expect(going.records.map(numbersOf)).toEqual(still.records.map(numbersOf));
    expect(going.weightsHash).toBe(still.weightsHash);
    for (let rank = 0; rank < c.ranks; rank++) {
      const [a, b] = [standing, beside].map((folder) =>
        readFileSync(join(folder, stepFolderName(2), rankFileName(rank, c.ranks))),
      );
      expect(b!.equals(a!)).toBe(true);
    }
    const [a, b] = [standing, beside].map((folder) =>
      JSON.parse(readFileSync(join(folder, stepFolderName(2), "checkpoint.json"), "utf8")),
    );
    expect(b).toEqual(a);
    for (const folder of [standing, beside]) rmSync(folder, { recursive: true });
  });

test("a disk that is full under one rank: both hear the same, training went on as if nothing had been saved", async () => {
  const job = jobOf({ ranks: 2, stage: 3 });
  const folder = join(here, "full");
  const straight = await run(2, job);
  const answers = await lawPool().attempt(2, {
    ...job,
    save: { folder, afterStep: 2, beside: { fullDiskOfRank: 1 } },
  });
  const words = /the checkpoint of step 2 could not be saved, and those before it are as they were: .*no space left/;
  for (const { saving, records } of answers) {
    expect(saving?.error).toMatchObject({ name: "CheckpointError", message: expect.stringMatching(words) });
    expect(records.map(numbersOf)).toEqual(straight.records.map(numbersOf));
  }
  expect(readdirSync(folder)).toEqual([]);
});
