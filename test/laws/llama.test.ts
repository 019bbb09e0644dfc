// The laws for Llama's family: at one world size the same bits over stages, tiers, buckets, look-ahead, sub-groups, threads and
// activation checkpointing, with ledgers that are the forecast's and the formulas'. Each member of the family with its oddities.
import { describe, expect, test } from "vitest";
import type { LlamaConfig } from "../../src/nn/models/llama-config.ts";
import { expectForecast, expectFormulas, lastReport } from "./accounts.ts";
import type { Job } from "./jobs.ts";
import { type JobAnswer, run } from "./pool.ts";
import { Draws, drawSetting, jsonOf, plainSetting, type Setting } from "./sample.ts";

const seed = Number(process.env.SHUNYA_LAW_SEED ?? 20);
const draws = new Draws(seed);

const llama: LlamaConfig = {
  architecture: "llama",
  vocabularySize: 67,
  positions: 32,
  hidden: 32,
  layers: 2,
  heads: 4,
  keyValueHeads: 2,
  headWidth: 8,
  feedForward: 40,
  normEpsilon: 1e-5,
  initializerRange: 0.05,
  attentionDropout: 0,
  attentionBias: "none",
  feedForwardBias: false,
  normsQueryAndKey: false,
  ropeTheta: 10000,
  ropeScaling: undefined,
  slidingWindow: undefined,
  tied: false,
  specialTokens: {},
};

interface Case {
  readonly name: string;
  readonly changes: Partial<LlamaConfig>;
  readonly ranks: number;
  readonly precision: "fp32" | "bf16" | "fp16";
  readonly accumulation: number;
}

const cases: readonly Case[] = [
  { name: "llama", changes: {}, ranks: 2, precision: "fp32", accumulation: 1 },
  {
    name: "a tied llama with all biases and dropout",
    changes: { tied: true, attentionBias: "all", feedForwardBias: true, attentionDropout: 0.2 },
    ranks: 3,
    precision: "bf16",
    accumulation: 1,
  },
  {
    name: "qwen2 with one head of keys and values and a window in one layer",
    changes: {
      ...{ architecture: "qwen2", attentionBias: "queryKeyValue", keyValueHeads: 1 },
      slidingWindow: { tokens: 5, fromLayer: 1 },
    },
    ranks: 2,
    precision: "fp16",
    accumulation: 2,
  },
  {
    name: "qwen3 with a window",
    changes: {
      ...{ architecture: "qwen3", normsQueryAndKey: true, headWidth: 16, tied: true },
      slidingWindow: { tokens: 6, fromLayer: 0 },
    },
    ranks: 4,
    precision: "bf16",
    accumulation: 1,
  },
];

const jobOf = (c: Case, setting: Setting): Job => ({
  model: { kind: "llama", config: { ...llama, ...c.changes } },
  steps: 3,
  seqLength: 16,
  threads: setting.threads,
  config: jsonOf(setting, {
    train_micro_batch_size_per_gpu: 2,
    gradient_accumulation_steps: c.accumulation,
    bf16: { enabled: c.precision === "bf16" },
    ...(c.precision === "fp16" && { fp16: { enabled: true, initial_scale_power: 8 } }),
    optimizer: { type: "AdamW", params: { lr: 3e-3, weight_decay: 0.1 } },
  }),
});

async function trainAndAccount(c: Case, setting: Setting): Promise<JobAnswer> {
  const job = jobOf(c, setting);
  const answer = await run(c.ranks, job);
  const { plan } = await expectForecast(job, c.ranks, answer, [c.ranks - 1]);
  for (let rank = 0; rank < c.ranks; rank++) expectFormulas(plan, lastReport(answer, rank));
  return answer;
}

const outcome = (answer: JobAnswer) => ({
  losses: answer.records.map((r) => r.loss),
  weights: answer.ranks.map((r) => r.weightsHash),
});

describe(`equal bits of Llama's family (seed ${seed})`, () => {
  for (const c of cases)
    for (const stages of c.accumulation === 1 ? [[0, 1, 2, 3] as const] : [[0, 1] as const, [2, 3] as const])
      test(`${c.name}, ${c.precision}, ${c.ranks} ranks, stages ${stages.join(", ")}`, async () => {
        const plain = await trainAndAccount(c, plainSetting(stages[0]));
        expect(new Set(outcome(plain).losses).size).toBe(3);
        expect(new Set(outcome(plain).weights).size).toBe(1);
        for (let i = 0; i < 8; i++) {
          const setting = drawSetting(draws, i < stages.length ? [stages[i]!] : stages);
          expect(outcome(await trainAndAccount(c, setting)), JSON.stringify(setting)).toEqual(outcome(plain));
        }
      });
});
