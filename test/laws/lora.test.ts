// LoRA: whatever the stage, tier, recomputation or accumulation, the same bits; of the frozen model its own bytes and no more, of the
// adapters all states; the base leaves training as it came, and a run that is resumed is the run that never stopped.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { expectForecast, expectFormulas, lastReport } from "./accounts.ts";
import type { Job } from "./jobs.ts";
import { gpt2, type ModelSpec } from "./models.ts";
import { type JobAnswer, run } from "./pool.ts";
import { Draws, drawSetting, jsonOf, plainSetting, type Setting } from "./sample.ts";

const draws = new Draws(Number(process.env.SHUNYA_LAW_SEED ?? 20));

const llama: ModelSpec = {
  kind: "llama",
  config: {
    ...{ architecture: "llama", vocabularySize: 67, positions: 32, hidden: 32, layers: 2, heads: 4, keyValueHeads: 2 },
    ...{ headWidth: 8, feedForward: 40, normEpsilon: 1e-5, initializerRange: 0.05, attentionDropout: 0 },
    ...{ attentionBias: "none", feedForwardBias: false, normsQueryAndKey: false, ropeTheta: 10000 },
    ...{ ropeScaling: undefined, slidingWindow: undefined, tied: true, specialTokens: {} },
  },
};

interface Case {
  readonly name: string;
  readonly model: ModelSpec;
  readonly lora: { readonly rank: number } & Readonly<Record<string, unknown>>;
  /** Elements of the adapters, by hand: rank x (inputs + outputs) of each layer. */
  readonly trained: number;
  readonly ranks: number;
  readonly precision: "fp32" | "bf16" | "fp16";
  readonly accumulation: number;
}

const cases: readonly Case[] = [
  {
    name: "GPT-2, every layer, with dropout",
    model: gpt2({ residualDropout: 0.1 }),
    lora: { rank: 3, alpha: 6, targets: "all-linear", dropout: 0.2 },
    trained: 2 * 3 * (32 + 96 + (32 + 32) + (32 + 128) + (128 + 32)),
    ...{ ranks: 2, precision: "bf16", accumulation: 1 },
  },
  {
    name: "GPT-2, PEFT's layers",
    model: gpt2({ tied: false }),
    lora: { rank: 2 },
    trained: 2 * 2 * (32 + 96),
    ...{ ranks: 3, precision: "fp32", accumulation: 2 },
  },
  {
    name: "Llama, PEFT's layers",
    model: llama,
    lora: { rank: 4, alpha: 4, rank_stabilized: true },
    trained: 2 * 4 * (32 + 32 + (32 + 16)),
    ...{ ranks: 2, precision: "fp16", accumulation: 1 },
  },
];

function jobOf({ model, lora, precision, accumulation }: Case, setting: Setting): Job {
  const config = jsonOf(setting, {
    train_micro_batch_size_per_gpu: 2,
    gradient_accumulation_steps: accumulation,
    bf16: { enabled: precision === "bf16" },
    ...(precision === "fp16" && { fp16: { enabled: true, initial_scale_power: 8 } }),
    optimizer: { type: "AdamW", params: { lr: 1e-2, weight_decay: 0.1 } },
  }) as { shunya: object };
  return {
    model,
    steps: 3,
    seqLength: 16,
    threads: setting.threads,
    wantsWeights: true,
    config: { ...config, shunya: { ...config.shunya, lora } },
  };
}

async function trainAndAccount(c: Case, setting: Setting): Promise<JobAnswer> {
  const job = jobOf(c, setting);
  const answer = await run(c.ranks, job);
  const { plan } = await expectForecast(job, c.ranks, answer, [c.ranks - 1]);
  expect(plan.trainableElements).toBe(c.trained);
  for (let rank = 0; rank < c.ranks; rank++) expectFormulas(plan, lastReport(answer, rank));
  return answer;
}

const outcome = (answer: JobAnswer) => ({
  losses: answer.records.map((r) => r.loss),
  weights: answer.ranks.map((r) => r.weightsHash),
});

describe("equal bits, with bytes and traffic of what is trained", () => {
  for (const c of cases)
    for (const stages of c.accumulation === 1 ? [[0, 1, 2, 3] as const] : [[0, 1] as const, [2, 3] as const])
      test(`${c.name}, ${c.precision}, ${c.ranks} ranks, stages ${stages.join(", ")}`, async () => {
        const plain = await trainAndAccount(c, plainSetting(stages[0]));
        const first = await run(c.ranks, { ...jobOf(c, plainSetting(stages[0])), steps: 0 });
        for (const [name, values] of plain.weights!)
          if (name.includes(".lora_")) expect(values, name).not.toEqual(first.weights!.get(name));
          else expect(values, name).toEqual(first.weights!.get(name));
        for (let i = 0; i < 6; i++) {
          const setting = drawSetting(draws, i < stages.length ? [stages[i]!] : stages);
          expect(outcome(await trainAndAccount(c, setting)), JSON.stringify(setting)).toEqual(outcome(plain));
        }
      });
});

test("adapters begin alike in every world: A even below 1 / sqrt(inputs), B zero", async () => {
  const begin = (ranks: number, stage: 0 | 3) =>
    run(ranks, { ...jobOf({ ...cases[0]!, precision: "fp32" }, plainSetting(stage)), steps: 0 });
  const [one, three] = [await begin(1, 0), await begin(3, 3)];
  expect(three.weightsHash).toBe(one.weightsHash);
  const seen = new Set<number>();
  for (const [name, values] of one.weights!) {
    if (name.includes(".lora_B.")) expect(values.every((v) => v === 0)).toBe(true);
    if (!name.includes(".lora_A.")) continue;
    const largest = Math.max(...values.map(Math.abs)) * Math.sqrt(values.length / 3);
    expect(largest, name).toBeLessThanOrEqual(1);
    expect(largest, name).toBeGreaterThan(0.9);
    seen.add(values[0]!);
  }
  expect(seen.size, "each layer has numbers of its own").toBe(8);
});

test("the first loss is the model's without adapters, and dropout acts on what adapters read", async () => {
  const c = { ...cases[0]!, model: gpt2(), precision: "fp32" as const };
  const lossesOf = async (shunya: object) => {
    const job = jobOf(c, plainSetting(0));
    const { records } = await run(1, { ...job, config: { ...job.config, shunya } });
    return records.map((r) => r.loss);
  };
  const whole = await lossesOf({});
  const adapted = await lossesOf({ lora: { ...c.lora, dropout: 0 } });
  expect(adapted[0]).toBe(whole[0]);
  expect(adapted[2]).not.toBe(whole[2]);
  expect((await lossesOf({ lora: c.lora }))[2]).not.toBe(adapted[2]);
});

test("a run goes on from a checkpoint to the same bits, at other stages and on other tiers", async () => {
  const folder = mkdtempSync(join(tmpdir(), "shunya-lora-"));
  const c = cases[0]!;
  try {
    const straight = await run(2, { ...jobOf(c, plainSetting(0)), steps: 5 });
    const first = { ...jobOf(c, plainSetting(3)), steps: 2, save: { folder, afterStep: 2 } };
    expect((await run(2, first)).records).toHaveLength(2);
    for (const setting of [
      plainSetting(0),
      { ...plainSetting(3), optimizerTier: "cpu", parameterTier: "nvme" } as const,
    ]) {
      const rest = await run(2, { ...jobOf(c, setting), steps: 5, resume: folder });
      expect(rest.records.map((r) => r.loss)).toEqual(straight.records.slice(2).map((r) => r.loss));
      expect(rest.weightsHash).toBe(straight.weightsHash);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
