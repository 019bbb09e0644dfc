// Saving and resuming stream: beside what the ledger holds, the process grows by a few pieces, however large the states are.
import { existsSync, readFileSync, rmSync } from "node:fs";
import { afterAll, expect, test } from "vitest";
import { findTraining, resumePointOf } from "../../src/checkpoint/find-training.ts";
import { saveCheckpoint } from "../../src/checkpoint/save-training.ts";
import { joinWorld } from "../../src/launch/world.ts";
import type { LanguageBatch } from "../../src/nn/models/gpt2.ts";
import { Engine } from "../../src/zero/engine.ts";
import { configOf } from "../laws/jobs.ts";
import { buildModel, gpt2 } from "../laws/models.ts";
import { smallJob, trainStep } from "../zero/support.ts";
import { temporaryFolder } from "./files.ts";

const here = temporaryFolder();
afterAll(() => rmSync(here, { recursive: true, force: true }));

const rollup = "/proc/self/smaps_rollup";
/** Bytes that the system charges this process with (proportional set size). */
const heldBytes = (): number => 1024 * Number(/^Pss:\s+(\d+)/m.exec(readFileSync(rollup, "utf8"))![1]);

/** 12 bytes of states for each of 8 million parameters. */
const job = smallJob({
  model: gpt2({ vocabularySize: 62_500, hidden: 128 }),
  config: {
    train_micro_batch_size_per_gpu: 1,
    bf16: { enabled: true },
    optimizer: { type: "AdamW", params: { lr: 0.01 } },
  },
  seqLength: 8,
});
/** Three blocks on their way to the drive and a piece are 16 MiB. */
const savePieces = 32 * 2 ** 20;
/** A piece on its way from the file, one to the device, and what the collector has not come to. */
const resumePieces = 64 * 2 ** 20;

test.skipIf(!existsSync(rollup))(
  "no copy of the states, neither in a save nor in a resumed run",
  async () => {
    const folder = `${here}/checkpoints`;
    const options = () => {
      const { device, transport } = joinWorld({ threads: 1 });
      return { model: buildModel(job.model, 0), config: configOf(job.config, 1), device, transport };
    };
    let most = 0;
    const look = (): void => {
      most = Math.max(most, heldBytes());
    };
    {
      await using engine = await Engine.create<LanguageBatch>(options());
      await trainStep(engine, job, 0);
      const saveStates = engine.saveStates.bind(engine);
      engine.saveStates = (body) =>
        saveStates((states) =>
          body({
            ranges: states.ranges,
            end: () => states.end(),
            read: (range, first, into) => {
              look();
              return states.read(range, first, into);
            },
          }),
        );
      const before = heldBytes();
      const { bytes } = await saveCheckpoint(engine, folder);
      expect(bytes).toBeGreaterThan(90_000_000);
      expect(most - before).toBeLessThan(savePieces);
    }
    most = 0;
    const before = heldBytes();
    await using saved = await findTraining(folder, { onDamaged: (text) => expect.fail(text) });
    const states = {
      has: () => true,
      read: (...range: Parameters<typeof saved.states.read>) => {
        look();
        return saved.states.read(...range);
      },
    };
    const resume = { ...resumePointOf(saved), states };
    await using engine = await Engine.create<LanguageBatch>({ ...options(), resume });
    expect(most - before).toBeLessThan(engine.device.ledger.highestInMemory + resumePieces);
    expect(engine.steps).toBe(1);
  },
  30_000,
);
