// What one rank fails at, all ranks throw alike; what a rank does not come to is named and does not hang.

import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { together } from "../../src/checkpoint/agree.ts";
import type { ProcessGroup } from "../../src/comm/group.ts";
import { CheckpointError, InternalError, ModelError } from "../../src/errors/errors.ts";
import { gpt2 } from "../laws/models.ts";
import { lawPool } from "../laws/pool.ts";
import { temporaryFolder } from "./files.ts";

const here = temporaryFolder();
afterAll(() => rmSync(here, { recursive: true, force: true }));

/** Runs a work on ranks of a group that only exchanges. */
function onRanks(works: readonly (() => Promise<readonly number[]>)[]): Promise<PromiseSettledResult<unknown>[]> {
  const given: Float64Array[] = [];
  let release: () => void = () => {};
  const all = new Promise<void>((resolve) => {
    release = resolve;
  });
  const groupOf = (rank: number) =>
    ({
      rank,
      exchange: async (values: Float64Array) => {
        given[rank] = values;
        if (Object.keys(given).length === works.length) release();
        await all;
        return given;
      },
    }) as unknown as ProcessGroup;
  return Promise.allSettled(works.map((work, rank) => together(groupOf(rank), "work", work)));
}

const fail = (error: Error) => async (): Promise<readonly number[]> => {
  throw error;
};

test("every rank hears every rank's numbers", async () => {
  const ranks = await onRanks([async () => [1, 2], async () => [], async () => [3]]);
  for (const rank of ranks) expect(rank).toMatchObject({ status: "fulfilled", value: [[1, 2], [], [3]] });
});

test("the lowest rank's failure is everybody's, with its words", async () => {
  const text = "rank-0001: ENOSPC: नो स्पेस left";
  const ranks = await onRanks([async () => [], fail(new ModelError(text)), fail(new ModelError("another"))]);
  const reasons = ranks.map((rank) => (rank as PromiseRejectedResult).reason);
  for (const reason of reasons) expect(reason).toBeInstanceOf(CheckpointError);
  expect(reasons.map((r) => r.message)).toEqual([`rank 1: ${text}`, text, `rank 1: ${text}`]);
});

test("an error of our own stays one, where it was made", async () => {
  const [first, second] = await onRanks([fail(new InternalError("broken")), async () => []]);
  expect((first as PromiseRejectedResult).reason).toBeInstanceOf(InternalError);
  expect((second as PromiseRejectedResult).reason.message).toMatch(/rank 0: internal: broken/);
});

for (const stage of [0, 3])
  for (const rank of [0, 1])
    test(`a checkpoint that only rank ${rank} of two saves, stage ${stage}: an error that names it, at once`, async () => {
      const started = performance.now();
      const answers = await lawPool().attempt(2, {
        model: gpt2(),
        config: { train_micro_batch_size_per_gpu: 2, zero_optimization: { stage } },
        steps: 4,
        seqLength: 16,
        deadlineMs: 60_000,
        save: { folder: join(here, `${stage}-${rank}`), afterStep: 2, rank },
      });
      expect(performance.now() - started).toBeLessThan(20_000);
      expect(answers.map((a) => a.error?.code)).toEqual(["DESYNC", "DESYNC"]);
      const saves = new RegExp(`rank ${rank} barrier before a checkpoint \\(every rank saves it, or none\\) in step`);
      for (const { error } of answers) expect(error!.message).toMatch(saves);
    });

test("a checkpoint after the other rank's last step names it too", async () => {
  const answers = await lawPool().attempt(2, {
    model: gpt2(),
    config: { train_micro_batch_size_per_gpu: 2, zero_optimization: { stage: 1 } },
    steps: 2,
    seqLength: 16,
    deadlineMs: 1500,
    save: { folder: join(here, "last"), afterStep: 2, rank: 0 },
  });
  expect(answers[0]!.error!.message).toMatch(/before a checkpoint \(every rank saves it, or none\)/);
});
