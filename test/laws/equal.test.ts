// Bit-equality: at one world size the stage, buckets, look-ahead, sub-groups, overlap, threads, persistence and activation
// checkpointing change where things are and never what they are. With accumulation stages 0 and 1 add micro-batches first and
// ranks second, stages 2 and 3 the other way round: two pairs that agree to rounding. Every run also shows its own ledgers, so
// that equality cannot come from doing the same thing everywhere.
import { describe, expect, test } from "vitest";
import { expectForecast, expectFormulas, lastReport } from "./accounts.ts";
import type { Job } from "./jobs.ts";
import { gpt2 } from "./models.ts";
import { type JobAnswer, run } from "./pool.ts";
import { Draws, drawSetting, jsonOf, plainSetting, type Setting } from "./sample.ts";

const seed = Number(process.env.SHUNYA_LAW_SEED ?? 20);
const draws = new Draws(seed);

interface Case {
  readonly ranks: number;
  readonly precision: "fp32" | "bf16" | "fp16";
  readonly microBatch: number;
  readonly accumulation: number;
  readonly dropout: number;
  readonly accumulationType?: "fp32" | "fp16";
  /** Element type of gradients between ranks; their own if left out. */
  readonly sentType?: "fp32" | "bf16";
  /** fp16 only: 2^30 makes the first steps overflow. */
  readonly scalePower?: number;
  /** Random runs that are compared with the plain one; the first of them have one stage each. */
  readonly runs: number;
}

const cases: readonly Case[] = [
  { ranks: 1, precision: "fp32", microBatch: 2, accumulation: 1, dropout: 0, runs: 8 },
  { ranks: 2, precision: "fp32", microBatch: 2, accumulation: 1, dropout: 0.2, runs: 10 },
  { ranks: 2, precision: "bf16", microBatch: 2, accumulation: 1, dropout: 0, runs: 10 },
  { ranks: 4, precision: "fp32", microBatch: 1, accumulation: 1, dropout: 0, runs: 10 },
  { ranks: 4, precision: "bf16", microBatch: 1, accumulation: 1, dropout: 0.1, runs: 10 },
  { ranks: 3, precision: "bf16", microBatch: 1, accumulation: 1, dropout: 0, runs: 8 },
  { ranks: 7, precision: "fp32", microBatch: 1, accumulation: 1, dropout: 0, runs: 8 },
  { ranks: 2, precision: "fp32", microBatch: 1, accumulation: 4, dropout: 0.1, runs: 10 },
  { ranks: 2, precision: "bf16", microBatch: 1, accumulation: 2, dropout: 0, runs: 10 },
  { ranks: 4, precision: "bf16", microBatch: 1, accumulation: 2, dropout: 0, accumulationType: "fp32", runs: 10 },
  { ranks: 2, precision: "fp16", microBatch: 2, accumulation: 1, dropout: 0.1, scalePower: 8, runs: 8 },
  { ranks: 3, precision: "fp16", microBatch: 1, accumulation: 1, dropout: 0, scalePower: 30, runs: 8 },
  { ranks: 2, precision: "fp16", microBatch: 1, accumulation: 2, dropout: 0, scalePower: 30, runs: 8 },
  { ranks: 2, precision: "bf16", microBatch: 1, accumulation: 1, dropout: 0, sentType: "fp32", runs: 8 },
  {
    ranks: 3,
    precision: "bf16",
    microBatch: 1,
    accumulation: 2,
    dropout: 0,
    accumulationType: "fp16",
    sentType: "bf16",
    runs: 6,
  },
];

/** Long enough for the scale to come down from 2^30. */
const stepsOf = (c: Case): number => (c.scalePower === 30 ? 16 : 3);

function jobOf(c: Case, setting: Setting): Job {
  const dropout = { embeddingDropout: c.dropout, attentionDropout: c.dropout, residualDropout: c.dropout };
  return {
    model: gpt2(dropout),
    steps: stepsOf(c),
    seqLength: 16,
    threads: setting.threads,
    config: jsonOf(setting, {
      train_micro_batch_size_per_gpu: c.microBatch,
      gradient_accumulation_steps: c.accumulation,
      bf16: { enabled: c.precision === "bf16" },
      ...(c.precision === "fp16" && { fp16: { enabled: true, initial_scale_power: c.scalePower, hysteresis: 1 } }),
      ...(c.sentType && { communication_data_type: c.sentType }),
      optimizer: { type: "AdamW", params: { lr: 3e-3, weight_decay: 0.1 } },
      ...(c.accumulationType && { data_types: { grad_accum_dtype: c.accumulationType } }),
    }),
  };
}

const outcome = (answer: JobAnswer) => ({
  losses: answer.records.map((r) => r.loss),
  skipped: answer.records.map((r) => r.skipped),
  weights: answer.weightsHash,
});

const normsOf = (answer: JobAnswer): number[] => answer.records.flatMap((r) => r.gradNorm ?? []);

async function trainAndAccount(c: Case, setting: Setting): Promise<JobAnswer> {
  const job = jobOf(c, setting);
  const answer = await run(c.ranks, job);
  for (const { weightsHash } of answer.ranks) expect(weightsHash).toBe(answer.weightsHash);
  const { plan } = await expectForecast(job, c.ranks, answer, [c.ranks - 1]);
  for (let rank = 0; rank < c.ranks; rank++) expectFormulas(plan, lastReport(answer, rank));
  return answer;
}

const nameOf = (c: Case): string =>
  `${c.precision}, ${c.ranks} ranks, ${c.accumulation} micro-batches of ${c.microBatch}` +
  `${c.accumulationType ? `, added in ${c.accumulationType}` : ""}${c.sentType ? `, sent in ${c.sentType}` : ""}` +
  `${c.scalePower === undefined ? "" : `, scale 2^${c.scalePower}`}${c.dropout > 0 ? ", dropout" : ""}`;

describe(`equal bits (seed ${seed})`, () => {
  for (const c of cases)
    for (const stages of c.accumulation === 1
      ? ([[0, 1, 2, 3]] as const)
      : ([
          [0, 1],
          [2, 3],
        ] as const)) {
      const settings = Array.from({ length: c.runs }, (_, i) =>
        drawSetting(draws, i < stages.length ? [stages[i]!] : stages),
      );
      test(`stages ${stages.join(", ")}: ${nameOf(c)}`, async () => {
        const plain = await trainAndAccount(c, plainSetting(stages[0]));
        const losses = plain.records.map((r) => r.loss);
        expect(new Set(losses).size).toBe(losses.length);
        const skips = plain.records.filter((r) => r.skipped).length;
        expect(skips > 0 && skips < losses.length).toBe(c.scalePower === 30);
        // The threshold divides units into buffers, and the norm's fp64 sums run buffer by buffer: the last bit may differ.
        const norms = new Map([[plainSetting(0).persistence, normsOf(plain)]]);
        for (const setting of settings) {
          const answer = await trainAndAccount(c, setting);
          expect(outcome(answer), JSON.stringify(setting)).toEqual(outcome(plain));
          const wanted = norms.get(setting.persistence);
          if (wanted) expect(normsOf(answer), JSON.stringify(setting)).toEqual(wanted);
          else norms.set(setting.persistence, normsOf(answer));
          normsOf(answer).forEach((norm, i) => {
            expect(Math.abs(norm / normsOf(plain)[i]! - 1)).toBeLessThan(1e-14);
          });
        }
      });
    }
});

describe("delayed updates: equal bits over stages 1 to 3 and tiers", () => {
  for (const c of [
    { ranks: 2, precision: "bf16", microBatch: 2, accumulation: 1, dropout: 0.1, runs: 8 },
    { ranks: 3, precision: "fp32", microBatch: 1, accumulation: 1, dropout: 0, runs: 8 },
  ] as const)
    test(nameOf(c), async () => {
      const delayed = (setting: Setting, tier: "cpu" | "nvme"): Setting => ({
        ...setting,
        optimizerTier: tier,
        ratio: undefined,
        isDelayed: true,
      });
      const plain = await trainAndAccount(c, delayed(plainSetting(1), "cpu"));
      expect(outcome(plain)).not.toEqual(outcome(await trainAndAccount(c, plainSetting(1))));
      for (let i = 0; i < c.runs; i++) {
        const setting = delayed(drawSetting(draws, [1, 2, 3]), draws.pick(["cpu", "nvme"]));
        expect(outcome(await trainAndAccount(c, setting)), JSON.stringify(setting)).toEqual(outcome(plain));
      }
    });
});

describe("equal to rounding", () => {
  const c = { precision: "fp32", dropout: 0.1, runs: 0 } as const;
  const lossesOf = async (more: Pick<Case, "ranks" | "microBatch" | "accumulation">, stage: Setting["stage"]) =>
    (await trainAndAccount({ ...c, ...more }, { ...plainSetting(stage), persistence: 0 })).records.map((r) => r.loss);
  const expectClose = (found: readonly number[], wanted: readonly number[]): void =>
    found.forEach((loss, i) => {
      expect(Math.abs(loss / wanted[i]! - 1)).toBeLessThan(2e-5);
    });

  // Dropout is keyed by the global sample, so it must not tell how the batch is divided.
  test("one global batch on 1, 2 and 4 ranks, at once or in micro-batches", async () => {
    const wanted = await lossesOf({ ranks: 1, microBatch: 8, accumulation: 1 }, 0);
    for (const stage of [0, 3] as const) {
      expectClose(await lossesOf({ ranks: 2, microBatch: 4, accumulation: 1 }, stage), wanted);
      expectClose(await lossesOf({ ranks: 4, microBatch: 2, accumulation: 1 }, stage), wanted);
      expectClose(await lossesOf({ ranks: 2, microBatch: 1, accumulation: 4 }, stage), wanted);
    }
  });

  test("stages 0 and 2 with accumulation", async () => {
    const split = { ranks: 4, microBatch: 1, accumulation: 2 };
    expectClose(await lossesOf(split, 2), await lossesOf(split, 0));
  });
});
