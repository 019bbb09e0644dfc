// Models of Llama's family are transformers': the same logits from the same folder, and for a Llama with groups of heads the same
// losses and gradient norms at every stage. llama-family/ holds what transformers made of them (make_llama.py beside it).
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { resolveConfig } from "../../src/config/resolve.ts";
import { initializeIn } from "../../src/launch/initialize.ts";
import { joinWorld } from "../../src/launch/world.ts";
import type { LanguageBatch } from "../../src/nn/models/language-model.ts";
import type { LlamaConfig } from "../../src/nn/models/llama-config.ts";
import { createModel } from "../../src/nn/models/models.ts";
import type { Job } from "../laws/jobs.ts";
import { run } from "../laws/pool.ts";

const folder = fileURLToPath(new URL("llama-family/", import.meta.url));
const bytes = readFileSync(fileURLToPath(new URL("gpt2-tiny/tokens.bin", import.meta.url)));
const tokens = new Uint16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));

/** Logits after the first n tokens, for each n. */
async function logitsOf(name: string, lengths: readonly number[]): Promise<Float32Array[]> {
  await using opened = await openModelFolder(`${folder}${name}`);
  const model = createModel(opened.config);
  const config = resolveConfig({ overrides: [["train_micro_batch_size_per_gpu", 1]], worldSize: 1 });
  const weights = opened.weights!;
  await using engine = await initializeIn<LanguageBatch>(joinWorld(), config, { model, weights });
  const found: Float32Array[] = [];
  for (const length of lengths) {
    const window = Int32Array.from(tokens.subarray(0, length));
    found.push(await engine.infer((tape) => model.nextLogits(tape, tape.integers(window, [1, length]))));
  }
  return found;
}

/** The largest |found - wanted|. */
const distance = (found: ArrayLike<number>, wanted: readonly number[]): number =>
  Math.max(...wanted.map((w, i) => Math.abs(found[i]! - w)));

/** The largest |found - wanted| / |wanted|. */
const relativeError = (found: readonly number[], wanted: readonly number[]): number =>
  Math.max(...wanted.map((w, i) => Math.abs(found[i]! - w) / Math.abs(w)));

describe("logits are transformers'", () => {
  test.each([
    ["llama", "groups of two, tied, llama3's scaling, F32"],
    ["llama-biased", "all biases, linear scaling, F16"],
    ["mistral", "one head of keys and values, heads narrower than their share, BF16"],
    ["qwen2", "biases of queries, keys and values, YaRN, F16"],
    ["qwen3", "norms of queries and keys, wide heads, shards, BF16"],
  ])("%s: %s", async (name) => {
    const expected = JSON.parse(readFileSync(`${folder}${name}/logits.json`, "utf8")) as {
      readonly lengths: readonly number[];
      readonly logits: readonly (readonly number[])[];
    };
    const found = await logitsOf(name, expected.lengths);
    for (const [i, wanted] of expected.logits.entries()) {
      expect(wanted).toHaveLength(256);
      expect(found[i]).toHaveLength(256);
      expect(distance(found[i]!, wanted), `after ${expected.lengths[i]} tokens`).toBeLessThan(1e-4);
    }
    // Those of other lengths are not these, so that the comparison can fail.
    expect(distance(found[2]!, expected.logits[3]!)).toBeGreaterThan(0.1);
  });
});

const expected = JSON.parse(readFileSync(`${folder}llama/losses.json`, "utf8")) as {
  readonly seq: number;
  readonly global_batch: number;
  readonly steps: number;
  readonly lr: number;
  readonly weight_decay: number;
  readonly clip: number;
  readonly betas: readonly [number, number];
  readonly eps: number;
  readonly losses: readonly number[];
  readonly grad_norms: readonly number[];
};

async function jobOf(stage: number): Promise<Job> {
  await using opened = await openModelFolder(`${folder}llama`);
  const { lr, weight_decay, betas, eps } = expected;
  return {
    model: { kind: "llama", config: opened.config as LlamaConfig },
    modelFolder: `${folder}llama`,
    tokens,
    steps: expected.steps,
    seqLength: expected.seq,
    config: {
      train_batch_size: expected.global_batch,
      gradient_clipping: expected.clip,
      optimizer: { type: "AdamW", params: { lr, weight_decay, betas, eps } },
      zero_optimization: { stage, stage3_param_persistence_threshold: 0 },
    },
  };
}

describe("training a Llama with groups of heads is PyTorch's", () => {
  for (const ranks of [1, 2, 4])
    test(`20 steps in fp32 at every stage, ${ranks} ranks: the same losses, and the same bits`, async () => {
      const runs = [];
      for (const stage of [0, 1, 2, 3]) runs.push(await run(ranks, await jobOf(stage)));
      const losses = runs.map(({ records }) => records.map((r) => r.loss));
      expect(losses[0]).toHaveLength(20);
      expect(relativeError(losses[0]!, expected.losses)).toBeLessThan(2e-5);
      const norms = runs[0]!.records.map((r) => r.gradNorm!);
      expect(relativeError(norms, expected.grad_norms)).toBeLessThan(1e-4);
      for (const [i, { weightsHash }] of runs.entries()) {
        expect(losses[i]).toEqual(losses[0]);
        expect(weightsHash).toBe(runs[0]!.weightsHash);
      }
    });
});
