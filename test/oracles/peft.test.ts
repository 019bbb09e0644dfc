// Fine-tuning is PyTorch's and PEFT's: the same losses and gradient norms with frozen parameters and with LoRA, from the same weights
// and the same adapter. peft/ holds what they made (make_peft.py beside it).
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { openAdapterFolder, withAdapter } from "../../src/checkpoint/adapter-folder.ts";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { mergedModel } from "../../src/checkpoint/merge-adapter.ts";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { resolveConfig } from "../../src/config/resolve.ts";
import { initializeIn } from "../../src/launch/initialize.ts";
import { joinWorld } from "../../src/launch/world.ts";
import type { LanguageBatch, LanguageModel } from "../../src/nn/models/language-model.ts";
import { createModel, isLlama } from "../../src/nn/models/models.ts";
import { tuned } from "../../src/nn/tuning.ts";
import type { WeightSource } from "../../src/zero/weights.ts";
import type { Job } from "../laws/jobs.ts";
import { type JobAnswer, run } from "../laws/pool.ts";

const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const bytes = readFileSync(pathOf("gpt2-tiny/tokens.bin"));
const tokens = new Uint16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
const bases = { gpt2: pathOf("gpt2-tiny/model"), llama: pathOf("llama-family/llama") } as const;
type Name = keyof typeof bases;

interface Trained {
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
}

const json = <T>(name: string): T => JSON.parse(readFileSync(pathOf(`peft/${name}`), "utf8")) as T;

async function jobOf(name: Name, stage: number, expected: Trained, shunya: object): Promise<Job> {
  await using opened = await openModelFolder(bases[name]);
  const { lr, weight_decay, betas, eps } = expected;
  return {
    model: isLlama(opened.config) ? { kind: "llama", config: opened.config } : { kind: "gpt2", config: opened.config },
    modelFolder: bases[name],
    tokens,
    steps: expected.steps,
    seqLength: expected.seq,
    config: {
      train_batch_size: expected.global_batch,
      gradient_clipping: expected.clip,
      optimizer: { type: "AdamW", params: { lr, weight_decay, betas, eps } },
      zero_optimization: { stage, stage3_param_persistence_threshold: 0 },
      shunya,
    },
  };
}

/** The largest |found - wanted| / |wanted|. */
const relativeError = (found: readonly number[], wanted: readonly number[]): number =>
  Math.max(...wanted.map((w, i) => Math.abs(found[i]! - w) / Math.abs(w)));

function expectTrained({ records }: JobAnswer, expected: Trained): void {
  const losses = records.map((r) => r.loss);
  expect(losses).toHaveLength(20);
  expect(relativeError(losses, expected.losses)).toBeLessThan(2e-5);
  const norms = records.map((r) => r.gradNorm!);
  expect(relativeError(norms, expected.grad_norms)).toBeLessThan(1e-4);
}

const lora = { gpt2: json<Trained & Logits>("gpt2/lora.json"), llama: json<Trained & Logits>("llama/lora.json") };

interface Logits {
  readonly lengths: readonly number[];
  readonly logits: readonly (readonly number[])[];
}

describe.each(Object.keys(bases) as Name[])("%s with LoRA is PEFT's", (name) => {
  const [initial, final] = ["initial", "final"].map((which) => pathOf(`peft/${name}/${which}`)) as [string, string];
  const settings = async () => {
    await using model = await openModelFolder(bases[name]);
    await using adapter = await openAdapterFolder(initial, model.config);
    const { rank, alpha, targets, rankStabilized: rank_stabilized } = adapter.lora;
    return { lora: { rank, alpha, targets, rank_stabilized } };
  };

  test.each([
    [0, 1],
    [0, 2],
    [3, 1],
    [3, 2],
  ])("20 steps from the same adapter at stage %i on %i ranks", async (stage, ranks) => {
    const job = await jobOf(name, stage, lora[name], await settings());
    const answer = await run(ranks, { ...job, adapterFolder: initial, wantsWeights: true });
    expectTrained(answer, lora[name]);
    await using file = await openSafetensors(`${final}/adapter_model.safetensors`);
    expect([...answer.weights!.keys()].filter((n) => n.includes(".lora_"))).toHaveLength(file.tensors.size);
    for (const [tensor, { elements }] of file.tensors) {
      const wanted = await file.readFloat32(tensor, 0, elements);
      const found = answer.weights!.get(tensor.replace("base_model.model.", ""))!;
      expect(distance(found, wanted), tensor).toBeLessThan(2e-4);
    }
  });

  test("an adapter that PEFT wrote gives PEFT's logits, and so does the merged model", async () => {
    await using model = await openModelFolder(bases[name]);
    await using adapter = await openAdapterFolder(final, model.config);
    const weights = withAdapter(model.weights!, adapter.weights);
    const { lengths, logits } = lora[name];
    const adapted = await logitsOf(
      tuned(createModel(model.config), { freeze: [], lora: adapter.lora }),
      weights,
      lengths,
    );
    const merged = mergedModel(model.config, adapter.lora, weights.read);
    const whole = await logitsOf(createModel(model.config), { has: () => true, read: merged.read }, lengths);
    const base = await logitsOf(createModel(model.config), model.weights!, lengths);
    for (const [i, wanted] of logits.entries()) {
      expect(distance(adapted[i]!, wanted)).toBeLessThan(1e-4);
      expect(distance(whole[i]!, wanted)).toBeLessThan(1e-4);
      expect(distance(base[i]!, wanted), "so that the comparison can fail").toBeGreaterThan(0.05);
    }
  });
});

/** Logits after the first n tokens, for each n. */
async function logitsOf(model: LanguageModel, weights: WeightSource, lengths: readonly number[]) {
  const config = resolveConfig({ overrides: [["train_micro_batch_size_per_gpu", 1]], worldSize: 1 });
  await using engine = await initializeIn<LanguageBatch>(joinWorld(), config, { model, weights });
  const found: Float32Array[] = [];
  for (const length of lengths) {
    const window = Int32Array.from(tokens.subarray(0, length));
    found.push(await engine.infer((tape) => model.nextLogits(tape, tape.integers(window, [1, length]))));
  }
  return found;
}

/** The largest |found - wanted|. */
const distance = (found: ArrayLike<number>, wanted: ArrayLike<number>): number =>
  Array.from(wanted).reduce((most, w, i) => Math.max(most, Math.abs(found[i]! - w)), 0);

const frozen = json<Record<Name, Trained & { readonly freeze: readonly string[] }>>("frozen.json");

describe.each(Object.keys(bases) as Name[])("%s with frozen parameters is PyTorch's", (name) => {
  test.each([
    [0, 1],
    [0, 2],
    [3, 1],
    [3, 2],
  ])("20 steps at stage %i on %i ranks", async (stage, ranks) => {
    const { freeze } = frozen[name];
    expectTrained(await run(ranks, await jobOf(name, stage, frozen[name], { freeze })), frozen[name]);
  });

  test("other parameters frozen are another training, so that the comparison can fail", async () => {
    const freeze = frozen[name].freeze.slice(1);
    const { records } = await run(1, await jobOf(name, 0, frozen[name], { freeze }));
    const losses = records.map((r) => r.loss);
    expect(relativeError(losses, frozen[name].losses)).toBeGreaterThan(1e-3);
  });
});
