// Frozen parameters: they cost their own bytes and no more, are neither reduced nor updated, and no stage, tier or recomputation
// changes a bit. Below the lowest one that is trained the backward pass does nothing and gathers nothing.
import { describe, expect, test } from "vitest";
import { expectForecast, expectFormulas, forecastOf, lastReport, paddedElements } from "./accounts.ts";
import type { Job } from "./jobs.ts";
import { gpt2, tinyGpt2 } from "./models.ts";
import { type JobAnswer, run } from "./pool.ts";
import { Draws, drawSetting, jsonOf, plainSetting, type Setting } from "./sample.ts";

const draws = new Draws(Number(process.env.SHUNYA_LAW_SEED ?? 20));

/** All embeddings, the first block, and a part of the others. */
const freeze = ["transformer.wte.*", "transformer.wpe.*", "transformer.h.0.*", "*.attn.c_attn.*"];
const isFrozen = (name: string): boolean => /\.(wte|wpe|h\.0|attn\.c_attn)\./.test(name);
const lowest: ReadonlySet<string> = new Set(["transformer.h.0"]);

interface Variant {
  readonly ranks: number;
  readonly precision: "fp32" | "bf16" | "fp16";
  readonly accumulation: number;
  readonly patterns?: readonly string[];
}

function jobOf({ precision, accumulation, patterns = freeze }: Variant, setting: Setting): Job {
  const config = jsonOf(setting, {
    train_micro_batch_size_per_gpu: 1,
    gradient_accumulation_steps: accumulation,
    bf16: { enabled: precision === "bf16" },
    ...(precision === "fp16" && { fp16: { enabled: true, initial_scale_power: 8 } }),
    optimizer: { type: "AdamW", params: { lr: 3e-3, weight_decay: 0.1 } },
  }) as { shunya: object };
  return {
    model: gpt2({ layers: 3, tied: false, residualDropout: 0.1 }),
    steps: 3,
    seqLength: 16,
    threads: setting.threads,
    wantsWeights: true,
    config: { ...config, shunya: { ...config.shunya, freeze: patterns } },
  };
}

async function trainAndAccount(variant: Variant, setting: Setting): Promise<JobAnswer> {
  const job = jobOf(variant, setting);
  const answer = await run(variant.ranks, job);
  const { plan, forwardOnly } = await expectForecast(job, variant.ranks, answer, [variant.ranks - 1]);
  expect(forwardOnly).toEqual(lowest);
  for (let rank = 0; rank < variant.ranks; rank++) expectFormulas(plan, lastReport(answer, rank), lowest);
  return answer;
}

const outcome = (answer: JobAnswer) => ({
  losses: answer.records.map((r) => r.loss),
  weights: answer.ranks.map((r) => r.weightsHash),
});

describe("equal bits over stages and settings, with bytes and traffic of what is trained", () => {
  const variants: readonly Variant[] = [
    { ranks: 2, precision: "bf16", accumulation: 1 },
    { ranks: 3, precision: "fp32", accumulation: 1 },
    { ranks: 2, precision: "fp16", accumulation: 2 },
  ];
  for (const variant of variants)
    for (const stages of variant.accumulation === 1 ? [[0, 1, 2, 3] as const] : [[0, 1] as const, [2, 3] as const])
      test(`${variant.precision}, ${variant.ranks} ranks, ${variant.accumulation} micro-batches, stages ${stages.join(", ")}`, async () => {
        const plain = await trainAndAccount(variant, plainSetting(stages[0]));
        const first = await run(variant.ranks, { ...jobOf(variant, plainSetting(stages[0])), steps: 0 });
        for (const [name, values] of plain.weights!)
          if (isFrozen(name)) expect(values, name).toEqual(first.weights!.get(name));
          else expect(values, name).not.toEqual(first.weights!.get(name));
        for (let i = 0; i < 6; i++) {
          const setting = drawSetting(draws, i < stages.length ? [stages[i]!] : stages);
          expect(outcome(await trainAndAccount(variant, setting)), JSON.stringify(setting)).toEqual(outcome(plain));
        }
      });
});

test("two bytes a frozen parameter, 2 psi_t sent, g (2 psi + psi_t) at stage 3", async () => {
  const variant: Variant = { ranks: 4, precision: "bf16", accumulation: 1 };
  // What could run again in the backward pass is not gathered for that either, where nothing flows to it.
  for (const [stage, checkpointing] of [
    [0, false],
    [1, false],
    [2, false],
    [3, false],
    [3, true],
  ] as const) {
    const job = jobOf(variant, { ...plainSetting(stage), persistence: 0, checkpointing });
    const answer = await run(4, job);
    const { plan } = await expectForecast(job, 4, answer, [0]);
    const { all, trained } = paddedElements(plan);
    expect(trained).toBeLessThan(0.6 * all);
    const { parameters, gradients, optimizer } = lastReport(answer, 0).memory.device;
    const held = parameters.current + gradients.current + optimizer.current;
    const bytes = [2 * all + 14 * trained, 2 * all + (2 + 12 / 4) * trained, 2 * all + (14 / 4) * trained];
    expect(held).toBe([...bytes, (2 * all + 14 * trained) / 4][stage]);
    const { reduceScatter, allGather } = lastReport(answer, 0).traffic;
    const block = paddedElements({ units: plan.units.filter(({ name }) => lowest.has(name)) }).all;
    const sent = stage < 3 ? 2 * trained : 2 * all + trained - block;
    expect(reduceScatter.elementsSent + allGather.elementsSent).toBe((sent * 3) / 4);
  }
});

describe("operations of the backward pass", () => {
  const tokens = 16;
  const operationsOf = async (patterns: readonly string[], checkpointing = false) => {
    const setting = { ...plainSetting(0), checkpointing };
    const variant: Variant = { ranks: 1, precision: "fp32", accumulation: 1, patterns };
    return (await forecastOf(jobOf(variant, setting), 1)).operationsByUnit;
  };
  const { hidden, vocabularySize } = tinyGpt2;
  const [first, second] = ["transformer.h.0", "transformer.h.1"];

  test("none in blocks below the lowest trained parameter, also where they could run again", async () => {
    for (const checkpointing of [false, true]) {
      const units = await operationsOf(freeze, checkpointing);
      expect(units.get(first!)!.backward).toBe(0);
      expect(units.get(first!)!.forward).toBeGreaterThan(0);
      expect(units.get(second!)!.backward).toBeGreaterThan(0);
    }
  });

  test("no product for the gradient of a frozen weight, nor a sum for that of a bias", async () => {
    const [all, without] = [await operationsOf([freeze[0]!]), await operationsOf([freeze[0]!, "*.attn.c_attn.*"])];
    // Of [hidden, 3 hidden] over the tokens, and the bias's column sum.
    const saved = 2 * tokens * hidden * 3 * hidden + tokens * 3 * hidden;
    for (const unit of [first, second]) expect(all.get(unit!)!.backward - without.get(unit!)!.backward).toBe(saved);
  });

  test("no product for the input of the lowest trained layer", async () => {
    // All but the head and the norm before it is frozen: the head's own two products, the norm's backward, and nothing else.
    const units = await operationsOf(["*", "!lm_head.*", "!transformer.ln_f.*"]);
    for (const unit of [first, second, "transformer.h.2"]) expect(units.get(unit!)!.backward).toBe(0);
    const headAlone = await operationsOf(["*", "!lm_head.*"]);
    const forwardOf = (of: typeof units): number => of.get("(root)")!.forward;
    // The head makes its gradients in the forward pass; without the norm to train, it makes none for its input.
    expect(forwardOf(units) - forwardOf(headAlone)).toBe(2 * tokens * hidden * vocabularySize);
    expect(headAlone.get("(root)")!.backward).toBe(0);
  });
});
