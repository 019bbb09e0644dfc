// Models that are not a GPT-2, worlds that divide nothing, rows of the residence table that are no stage, and ranks that err.
import { describe, expect, test } from "vitest";
import { expectForecast, lastReport } from "./accounts.ts";
import type { Job, RankAnswer } from "./jobs.ts";
import { gpt2, type ModelSpec } from "./models.ts";
import { type JobAnswer, lawPool, RankPool, run } from "./pool.ts";

interface Variant {
  readonly stage: number;
  readonly precision?: "fp32" | "bf16";
  readonly accumulation?: number;
  readonly checkpointing?: boolean;
  readonly zero?: object;
  readonly clipping?: number;
}

function jobOf(model: ModelSpec, variant: Variant): Job {
  const { stage, precision = "fp32", accumulation = 1, checkpointing = false, zero = {}, clipping = 1 } = variant;
  return {
    model,
    steps: 3,
    seqLength: 12,
    config: {
      train_micro_batch_size_per_gpu: 2,
      gradient_accumulation_steps: accumulation,
      gradient_clipping: clipping,
      bf16: { enabled: precision === "bf16" },
      optimizer: { type: "AdamW", params: { lr: 1e-2, weight_decay: 0.1 } },
      shunya: { activation_checkpointing: checkpointing },
      zero_optimization: { stage, stage3_param_persistence_threshold: 0, ...zero },
    },
  };
}

const outcome = (answer: JobAnswer) => ({
  losses: answer.records.map((r) => r.loss),
  norms: answer.records.map((r) => r.gradNorm),
  weights: answer.weightsHash,
});

const shared: ModelSpec = { kind: "shared", hidden: 16, vocabulary: 29, runs: 3 };
const odd: ModelSpec = { kind: "odd", hidden: 16, vocabulary: 29 };

describe("any model, any world", () => {
  for (const model of [shared, odd, gpt2({ tied: false })])
    for (const ranks of [3, 7])
      test(`${model.kind} on ${ranks} ranks: all stages alike, ledger as forecast`, async () => {
        const plain = outcome(await run(ranks, jobOf(model, { stage: 0 })));
        expect(plain.losses.at(-1)).toBeLessThan(plain.losses[0]!);
        for (const stage of [1, 2, 3])
          for (const checkpointing of [false, true]) {
            const job = jobOf(model, { stage, checkpointing });
            const answer = await run(ranks, job);
            expect(outcome(answer)).toEqual(plain);
            if (stage === 3) expect(lastReport(answer, 0).memory.device.gathered.peak).toBeGreaterThan(0);
            // This model alternates between micro-batches, so a forecast of two steps ends at another one than three steps.
            if (model.kind !== "shared") await expectForecast(job, ranks, answer, [0, ranks - 1]);
          }
      });

  test("a shared block whose branch one of two micro-batches skips", async () => {
    for (const pair of [
      [0, 1],
      [2, 3],
    ] as const) {
      const [first, second] = pair;
      const wanted = outcome(await run(3, jobOf(shared, { stage: first, accumulation: 2, precision: "bf16" })));
      for (const zero of [{}, { reduce_bucket_size: 500 }, { stage3_prefetch_bucket_size: 0 }]) {
        const job = jobOf(shared, { stage: second, accumulation: 2, precision: "bf16", zero });
        const answer = await run(3, job);
        expect(outcome(answer)).toEqual(wanted);
        await expectForecast(job, 3, answer, [0, 2]);
      }
    }
  });

  test("a branch that was read from disk ahead and then skipped is read again after the update", async () => {
    const steps = 5;
    const wanted = outcome(await run(3, { ...jobOf(shared, { stage: 0 }), steps }));
    for (const optimizer of ["none", "cpu", "nvme"]) {
      const zero = {
        stage3_prefetch_bucket_size: 0,
        offload_param: { device: "nvme", nvme_path: process.cwd() },
        offload_optimizer: { device: optimizer, nvme_path: process.cwd() },
      };
      const answer = await run(3, { ...jobOf(shared, { stage: 3, zero }), steps });
      expect(outcome(answer)).toEqual(wanted);
      expect(lastReport(answer, 0).memory.disk.parameters.current).toBeGreaterThan(0);
    }
  });

  test("stages agree to rounding where micro-batches skip a branch", async () => {
    const zero = { overlap_comm: true };
    const [whole, sharded] = [0, 3].map((stage) => run(3, jobOf(shared, { stage, accumulation: 2, zero })));
    const wanted = outcome(await whole!).losses;
    outcome(await sharded!).losses.forEach((loss, i) => {
      expect(Math.abs(loss / wanted[i]! - 1)).toBeLessThan(2e-5);
    });
  });

  test("frozen parameters stay, have no states, and unused ones only decay", async () => {
    const wantsWeights = true;
    const before = await run(3, { ...jobOf(odd, { stage: 3 }), steps: 1, wantsWeights });
    for (const stage of [0, 3]) {
      const after = await run(3, { ...jobOf(odd, { stage }), steps: 6, wantsWeights });
      const frozen = "frozen.up.weight";
      expect(after.weights!.get(frozen)).toEqual(before.weights!.get(frozen));
      const never = "narrow.never.weight";
      const start = before.weights!.get(never)!;
      // Five more steps of decoupled decay: w (1 - lr decay) each, and no gradient moves it.
      after.weights!.get(never)!.forEach((w, i) => {
        expect(w / start[i]!).toBeCloseTo((1 - 1e-2 * 0.1) ** 5, 6);
      });
      expect(after.weights!.get("narrow.down.weight")).not.toEqual(before.weights!.get("narrow.down.weight"));
    }
  });
});

describe("a fifth row of the residence table", () => {
  const row = { optimizer: "shard", gradients: "whole", parameters: "shard" } as const;

  test("sharded parameters with whole gradients train bit-identically", async () => {
    for (const [model, accumulation] of [
      [gpt2(), 1],
      [gpt2(), 2],
      [odd, 1],
    ] as const)
      for (const precision of ["fp32", "bf16"] as const) {
        const wanted = outcome(await run(3, jobOf(model, { stage: 0, accumulation, precision })));
        const job = { ...jobOf(model, { stage: 3, accumulation, precision }), row };
        const answer = await run(3, job);
        expect(outcome(answer)).toEqual(wanted);
        const { plan } = await expectForecast(job, 3, answer, [0, 1, 2]);
        const flats = plan.units.flatMap((u) => u.flats);
        const bytes = precision === "fp32" ? 4 : 2;
        const sum = (of: (f: (typeof flats)[number]) => number): number => flats.reduce((n, f) => n + of(f), 0);
        const { parameters, gradients, gathered } = lastReport(answer, 1).memory.device;
        expect(parameters.current).toBe(bytes * sum((f) => f.rangeElements));
        expect(gradients.current).toBe(bytes * sum((f) => (f.trainable ? f.paddedElements : 0)));
        expect(gathered.peak).toBeGreaterThan(0);
        // Whole gradients meet once a step, whatever the number of micro-batches.
        const { reduceScatter } = lastReport(answer, 1).traffic;
        expect(reduceScatter.elementsSent).toBe(2 * sum((f) => (f.trainable ? f.rangeElements : 0)));
      }
  });
});

describe("ranks that err", () => {
  const errorsOf = (answers: readonly RankAnswer[]): string[] => answers.map((a) => a.error?.name ?? "none");

  test("ranks that run other units are told apart, with both named", async () => {
    const model: ModelSpec = { kind: "crossed", hidden: 16, vocabulary: 29 };
    const job = { ...jobOf(model, { stage: 3, zero: { overlap_comm: false } }), deadlineMs: 3000 };
    const answers = await lawPool().attempt(2, job);
    expect(errorsOf(answers)).toEqual(["DesyncError", "DesyncError"]);
    for (const { error } of answers)
      expect(error!.message).toMatch(
        /rank 0 .*parameters of unit first in step 1 .*rank 1 .*parameters of unit second/,
      );
    // The processes are none the worse for it.
    expect((await run(2, jobOf(gpt2(), { stage: 3 }))).records).toHaveLength(3);
  });

  test("reading a sharded parameter outside its unit is an error that says where, even while it happens to be there", async () => {
    const model: ModelSpec = { kind: "peeking", hidden: 16, vocabulary: 29 };
    const kept = { stage3_max_reuse_distance: 1e9, stage3_max_live_parameters: 1e9 };
    for (const zero of [{ stage3_prefetch_bucket_size: 0 }, kept]) {
      const answers = await lawPool().attempt(2, jobOf(model, { stage: 3, zero }));
      expect(errorsOf(answers)).toEqual(["NotGatheredError", "NotGatheredError"]);
      expect(answers[0]!.error!.message).toContain("block.norm");
    }
    // Where parameters are whole, the same model trains.
    expect((await run(2, jobOf(model, { stage: 2 }))).records).toHaveLength(3);
  });

  test("a signal on one rank stops all of them after the same step", async () => {
    const job = { ...jobOf(gpt2(), { stage: 3, accumulation: 2 }), steps: 50, deadlineMs: 3000 };
    const answers = await lawPool().attempt(3, { ...job, stop: { rank: 1, step: 2 } });
    expect(errorsOf(answers)).toEqual(["InterruptedError", "InterruptedError", "InterruptedError"]);
    const messages = new Set(answers.map((a) => a.error!.message));
    expect(messages.size).toBe(1);
    expect([...messages][0]).toMatch(/after step 3$/);
  });

  test("a rank that does not come is named when the deadline is over", async () => {
    const stall = { rank: 1, step: 1, ms: 1500 };
    const answers = await lawPool().attempt(3, { ...jobOf(gpt2(), { stage: 3 }), deadlineMs: 500, stall });
    for (const rank of [0, 2]) {
      expect(answers[rank]!.error).toMatchObject({ name: "CommError", code: "COMM" });
      expect(answers[rank]!.error!.message).toMatch(/unit .* in step 2: rank 1 did not arrive within 5\d\d ms/);
    }
  });

  test("a rank that dies is named on the others at once", async () => {
    const pool = new RankPool(3, 2 ** 28);
    try {
      const heard: Promise<RankAnswer[]> = pool.attempt(3, {
        ...jobOf(gpt2(), { stage: 3 }),
        steps: 1000,
        deadlineMs: 60_000,
        death: { rank: 1, step: 2 },
      });
      const started = performance.now();
      const answers = await heard;
      expect(answers[0]!.error).toMatchObject({ name: "RankLostError", code: "RANK_LOST" });
      expect(answers[2]!.error).toMatchObject({ name: "RankLostError", code: "RANK_LOST" });
      expect(answers[0]!.error!.message).toContain("rank 1");
      expect(performance.now() - started).toBeLessThan(25_000);
    } finally {
      await pool.close();
    }
  });
});
