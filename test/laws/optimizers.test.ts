// Every optimizer at every stage: the weights agree to the bit, also with parameter groups that cut flat buffers in many
// places, and the ledger has the rule's K bytes an element. A group's numbers act on its parameters and on no other.
import { describe, expect, test } from "vitest";
import { expectedStates } from "../../src/plan/expected.ts";
import { expectForecast, lastReport, paddedElements } from "./accounts.ts";
import type { Job } from "./jobs.ts";
import { gpt2 } from "./models.ts";
import { run } from "./pool.ts";
import { Draws, drawSetting, jsonOf, plainSetting, type Setting } from "./sample.ts";

const draws = new Draws(Number(process.env.SHUNYA_LAW_SEED ?? 31));
interface World {
  readonly precision: "fp32" | "bf16" | "fp16";
  readonly ranks: number;
  readonly steps: number;
  readonly json: object;
}

const worlds: readonly World[] = [
  { precision: "fp32", ranks: 2, steps: 4, json: {} },
  { precision: "bf16", ranks: 3, steps: 4, json: { bf16: { enabled: true } } },
  // A scale that overflows at first: the first update is not the first step. The last two steps are applied, as in a forecast.
  { precision: "fp16", ranks: 2, steps: 10, json: { fp16: { enabled: true, initial_scale_power: 24, hysteresis: 1 } } },
];

interface Rule {
  readonly name: string;
  readonly optimizer: object;
  /** Bytes of fp32 states an element, without the master (contracts 13). */
  readonly stateBytes: number;
  readonly schedule?: object;
}

const oneCycle = {
  type: "OneCycle",
  params: { cycle_min_lr: 1e-4, cycle_max_lr: 3e-3, cycle_first_step_size: 2, cycle_second_step_size: 2 },
};
const warmup = { type: "WarmupLR", params: { warmup_num_steps: 3, warmup_type: "linear" } };
const params = { lr: 3e-3, weight_decay: 0.1 };

const rules: readonly Rule[] = [
  { name: "Adam", optimizer: { type: "Adam", params: { ...params, adam_w_mode: false } }, stateBytes: 8 },
  { name: "AdamW, OneCycle", optimizer: { type: "AdamW", params }, stateBytes: 8, schedule: oneCycle },
  { name: "Lion, warm-up", optimizer: { type: "Lion", params }, stateBytes: 4, schedule: warmup },
  { name: "SGD", optimizer: { type: "SGD", params }, stateBytes: 0 },
  {
    name: "SGD with momentum, OneCycle",
    optimizer: { type: "SGD", params: { ...params, momentum: 0.9, nesterov: true } },
    stateBytes: 4,
    schedule: oneCycle,
  },
  {
    name: "Adagrad",
    optimizer: { type: "Adagrad", params: { ...params, initial_accumulator_value: 0.1, lr_decay: 0.01 } },
    stateBytes: 4,
  },
];

/** Cuts through every flat buffer of vectors, and through those of matrices. */
const groups = [
  { match: ["*.bias", "*ln_1*"], weight_decay: 0 },
  { match: ["*c_proj*", "*wte*"], lr: 1e-3 },
];

function jobOf(rule: Rule, { json, steps }: World, setting: Setting, parameterGroups = groups): Job {
  return {
    model: gpt2(),
    steps,
    seqLength: 16,
    threads: setting.threads,
    config: withGroups(
      jsonOf(setting, {
        train_micro_batch_size_per_gpu: 2,
        ...json,
        optimizer: rule.optimizer,
        zero_allow_untested_optimizer: true,
        ...(rule.schedule && { scheduler: rule.schedule }),
      }),
      parameterGroups,
    ),
  };
}

const withGroups = (config: { shunya?: object }, parameterGroups: readonly object[]): object =>
  parameterGroups.length === 0
    ? config
    : { ...config, shunya: { ...config.shunya, parameter_groups: parameterGroups } };

describe("optimizers", () => {
  for (const world of worlds)
    test.each(rules)(`equal bits at stages 0 to 3 in ${world.precision}: $name`, async (rule) => {
      const { precision, ranks, steps } = world;
      let wanted: { losses: number[]; skipped: boolean[]; weights: string } | undefined;
      for (const stage of [0, 1, 2, 3] as const)
        for (const setting of [
          plainSetting(stage),
          {
            ...drawSetting(draws, [stage]),
            subGroup: 301,
            optimizerTier: "none" as const,
            parameterTier: "none" as const,
          },
          {
            ...drawSetting(draws, [stage]),
            optimizerTier: "cpu" as const,
            parameterTier: "cpu" as const,
            ratio: undefined,
          },
        ]) {
          const job = jobOf(rule, world, setting);
          const answer = await run(ranks, job);
          const { records } = answer;
          const found = { losses: records.map((r) => r.loss), skipped: records.map((r) => r.skipped) };
          wanted ??= { ...found, weights: answer.weightsHash };
          expect({ ...found, weights: answer.weightsHash }, JSON.stringify(setting)).toEqual(wanted);
          const { plan } = await expectForecast(job, ranks, answer, [0]);
          const { all } = paddedElements(plan);
          const tier = stage === 0 || setting.optimizerTier === "none" ? "device" : "host";
          const { optimizer, master, firstMoment, secondMoment } = lastReport(answer, 0).memory[tier];
          // In fp32 a parameter is its own master where both live in one tier.
          const isMaster =
            precision === "fp32" && (stage === 3 && setting.parameterTier === "cpu" ? "host" : "device") === tier;
          const bytesEach = rule.stateBytes + (isMaster ? 0 : 4);
          expect(optimizer.current).toBe((bytesEach * all) / (stage === 0 ? 1 : ranks));
          expect(master.current + firstMoment.current + secondMoment.current).toBe(optimizer.current);
          const expected = expectedStates(plan, tier).optimizer;
          expect(expected.bytes).toBe(optimizer.current);
          expect(expected.formula).toBe(bytesEach === 0 ? "0" : `${bytesEach} psi${stage === 0 ? "" : " / N"}`);
        }
      expect(new Set(wanted!.losses).size).toBe(steps);
      expect([wanted!.skipped[0], wanted!.skipped.at(-1)]).toEqual([precision === "fp16", false]);
    });

  test("a group's learning rate and decay act on its parameters alone", async () => {
    const lion = (lr: number, weight_decay: number): Rule => ({
      name: "",
      optimizer: { type: "Lion", params: { lr, weight_decay } },
      stateBytes: 4,
    });
    const afterOneStep = async (rule: Rule, parameterGroups: typeof groups) => {
      const setting = { ...plainSetting(3), subGroup: 301 };
      const answer = await run(2, {
        ...jobOf(rule, worlds[0]!, setting, parameterGroups),
        steps: 1,
        wantsWeights: true,
      });
      return answer.weights!;
    };
    const found = await afterOneStep(lion(3e-3, 0.1), groups);
    const [own, undecayed, slower] = await Promise.all(
      [lion(3e-3, 0.1), lion(3e-3, 0), lion(1e-3, 0.1)].map((rule) => afterOneStep(rule, [])),
    );
    const counts = new Map([own, undecayed, slower].map((weights) => [weights, 0]));
    for (const [name, values] of found) {
      const isUndecayed = name.endsWith(".bias") || name.includes("ln_1");
      const from = isUndecayed ? undecayed! : /c_proj|wte/.test(name) ? slower! : own!;
      counts.set(from, counts.get(from)! + 1);
      expect(values, name).toEqual(from.get(name));
    }
    expect(Math.min(...counts.values())).toBeGreaterThan(1);
    for (const other of [undecayed!, slower!])
      expect(other.get("transformer.h.0.mlp.c_fc.weight")).not.toEqual(own!.get("transformer.h.0.mlp.c_fc.weight"));
  });

  test("a group without parameters is refused before anything is allocated", async () => {
    const job = jobOf(rules[2]!, worlds[0]!, plainSetting(3), [{ match: ["*.bais"], weight_decay: 0 }]);
    await expect(run(2, job)).rejects.toThrow(
      /UsageError: shunya\.parameter_groups: group 1: .*did you mean "\*\.bias"/,
    );
  });
});
