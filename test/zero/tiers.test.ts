// The disk tier as an engine has it: several drives, damage from outside, and what is left behind. In this process, a world of one.
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { DiskError, UsageError } from "../../src/errors/errors.ts";
import type { LanguageBatch } from "../../src/nn/models/gpt2.ts";
import type { Engine } from "../../src/zero/engine.ts";
import type { Job } from "../laws/jobs.ts";
import { engineOf, smallJob, trainStep } from "./support.ts";

const here = join(process.cwd(), `swap-of-tests-${process.pid}`);
const folder = (name: string): string => {
  mkdirSync(join(here, name), { recursive: true });
  return join(here, name);
};
afterAll(() => rmSync(here, { recursive: true, force: true }));

const jobOn = (nvme_path: string | undefined, shunya: object = {}): Job =>
  smallJob({
    config: {
      train_micro_batch_size_per_gpu: 2,
      zero_optimization: {
        stage: 3,
        offload_optimizer: { device: "nvme", ...(nvme_path !== undefined && { nvme_path }) },
        offload_param: { device: "nvme" },
      },
      shunya,
    },
  });

async function lossesOf(engine: Engine<LanguageBatch>, job: Job, steps: number): Promise<number[]> {
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) losses.push((await trainStep(engine, job, step)).loss);
  return losses;
}

/** The swap file of the only rank. */
const swapFile = (parent: string): string => {
  const [own] = readdirSync(parent).filter((name) => name.startsWith("shunya-swap-"));
  return join(parent, own!, "rank-0000.swap");
};

test("states over two drives are the same states", async () => {
  const one = jobOn(folder("one"));
  const two = jobOn(folder("first"), { nvme_paths: [folder("second")] });
  await using plain = await engineOf({ job: one });
  await using striped = await engineOf({ job: two });
  expect(readdirSync(folder("second")).length).toBe(1);
  expect(await lossesOf(striped, two, 3)).toEqual(await lossesOf(plain, one, 3));
});

test("a swap file is no larger than what lies in it, however large a request may be", async () => {
  const parent = folder("blocks");
  const job = jobOn(parent);
  await using engine = await engineOf({ job: { ...job, config: { ...job.config, aio: { block_size: 1e9 } } } });
  const { disk } = (await trainStep(engine, job, 0)).ranks[0]!.memory;
  expect(statSync(swapFile(parent)).size).toBe(disk.optimizer.current + disk.parameters.current);
});

test("nothing is left on the disk when an engine is closed", async () => {
  const parent = folder("closed");
  const job = jobOn(parent);
  {
    await using engine = await engineOf({ job });
    await trainStep(engine, job, 0);
    expect(readdirSync(parent)).toHaveLength(1);
  }
  expect(readdirSync(parent)).toEqual([]);
});

test("a disk without a folder is refused by the key that lacks", async () => {
  await expect(engineOf({ job: jobOn(undefined) })).rejects.toThrow(UsageError);
  await expect(engineOf({ job: jobOn(undefined) })).rejects.toThrow(/offload_optimizer\.nvme_path/);
});

describe("damage is an error that names the file and the place", () => {
  const damages: [string, (file: string) => void, RegExp][] = [
    [
      "a flipped byte",
      (file) => {
        const descriptor = openSync(file, "r+");
        const byte = new Uint8Array(1);
        readSync(descriptor, byte, 0, 1, 100);
        byte[0]! ^= 1;
        writeSync(descriptor, byte, 0, 1, 100);
        closeSync(descriptor);
      },
      /checksum|not what was written|torn|flipped/i,
    ],
    ["a deleted file", (file) => rmSync(file), /deleted|gone|no longer/i],
    ["a file cut short", (file) => truncateSync(file, 4096), /size|cut|short|end|bytes/i],
  ];

  test.each(damages)("%s", async (name, damage, words) => {
    const parent = folder(name.replaceAll(" ", "-"));
    const job = jobOn(parent);
    await using engine = await engineOf({ job });
    await trainStep(engine, job, 0);
    await engine.device.reached(engine.device.mark("diskWrite"));
    damage(swapFile(parent));
    const next = lossesOf(engine, job, 3);
    await expect(next).rejects.toThrow(DiskError);
    await expect(next).rejects.toThrow(words);
    await expect(next).rejects.toThrow(/rank-0000\.swap/);
  });
});
