// Models of Llama's family are transformers': the same logits from the same folder, and for a Llama with groups of heads, and for
// models with windows, the same losses and gradient norms at every stage. llama-family/ holds what transformers made of them (make_llama.py beside it).
import { describe, expect, test } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { createModel } from "../../src/nn/models/models.ts";
import { run } from "../laws/pool.ts";
import {
  type Curve,
  distance,
  expectCurve,
  logitsOf,
  oraclePath,
  readOracle,
  type TrainingSettings,
  trainingJob,
} from "./training.ts";

describe("logits are transformers'", () => {
  test.each([
    ["llama", "groups of two, tied, llama3's scaling, F32"],
    ["llama-biased", "all biases, linear scaling, F16"],
    ["mistral", "one head of keys and values, heads narrower than their share, BF16"],
    ["qwen2", "biases of queries, keys and values, YaRN, F16"],
    ["qwen3", "norms of queries and keys, wide heads, shards, BF16"],
    ["mistral-window", "a window of 8 tokens in every layer"],
    ["qwen2-window", "a window of 11 tokens from the second layer on"],
    ["llama-longrope", "other factors beyond 32 original positions"],
  ])("%s: %s", async (name) => {
    const expected = readOracle<{
      readonly lengths: readonly number[];
      readonly logits: readonly (readonly number[])[];
    }>(`llama-family/${name}/logits.json`);
    await using opened = await openModelFolder(oraclePath(`llama-family/${name}`));
    const found = await logitsOf(createModel(opened.config), opened.weights!, expected.lengths);
    for (const [i, wanted] of expected.logits.entries()) {
      expect(wanted).toHaveLength(256);
      expect(found[i]).toHaveLength(256);
      expect(distance(found[i]!, wanted), `after ${expected.lengths[i]} tokens`).toBeLessThan(1e-4);
    }
    // Those of other lengths are not these, so that the comparison can fail.
    expect(distance(found[2]!, expected.logits[3]!)).toBeGreaterThan(0.1);
  });
});

const expected = readOracle<TrainingSettings & Curve>("llama-family/llama/losses.json");

describe("training a Llama with groups of heads is PyTorch's", () => {
  for (const ranks of [1, 2, 4])
    test(`20 steps in fp32 at every stage, ${ranks} ranks: the same losses, and the same bits`, async () => {
      const runs = [];
      for (const stage of [0, 1, 2, 3])
        runs.push(await run(ranks, await trainingJob(oraclePath("llama-family/llama"), stage, expected)));
      const losses = runs.map(({ records }) => records.map((r) => r.loss));
      expect(losses[0]).toHaveLength(20);
      expectCurve(runs[0]!.records, expected);
      for (const [i, { weightsHash }] of runs.entries()) {
        expect(losses[i]).toEqual(losses[0]);
        expect(weightsHash).toBe(runs[0]!.weightsHash);
      }
    });
});

describe("training on sequences longer than the window, or than the original positions, is PyTorch's", () => {
  test.each(["mistral-window", "qwen2-window", "llama-longrope"])(
    "%s, 2 ranks, stages 0 and 3: the same bits",
    async (name) => {
      const curve = readOracle<TrainingSettings & Curve>(`llama-family/${name}/losses.json`);
      const [whole, shared] = [
        await run(2, await trainingJob(oraclePath(`llama-family/${name}`), 0, curve)),
        await run(2, await trainingJob(oraclePath(`llama-family/${name}`), 3, curve)),
      ];
      expectCurve(whole.records, curve);
      expect(shared.records.map((r) => r.loss)).toEqual(whole.records.map((r) => r.loss));
      expect(shared.weightsHash).toBe(whole.weightsHash);
    },
  );
});
