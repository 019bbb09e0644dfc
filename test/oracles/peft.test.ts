// Fine-tuning is PyTorch's and PEFT's: the same losses and gradient norms with frozen parameters and with LoRA, from the same weights
// and the same adapter. peft/ holds what they made (make_peft.py beside it).
import { describe, expect, test } from "vitest";
import { openAdapterFolder, withAdapter } from "../../src/checkpoint/adapter-folder.ts";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { mergedModel } from "../../src/checkpoint/merge-adapter.ts";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { createModel } from "../../src/nn/models/models.ts";
import { tuned } from "../../src/nn/tuning.ts";
import type { Job } from "../laws/jobs.ts";
import { run } from "../laws/pool.ts";
import {
  type Curve,
  distance,
  expectCurve,
  logitsOf,
  oraclePath,
  readOracle,
  relativeError,
  type TrainingSettings,
  trainingJob,
} from "./training.ts";

const bases = { gpt2: oraclePath("gpt2-tiny/model"), llama: oraclePath("llama-family/llama") } as const;
type Name = keyof typeof bases;
type Trained = TrainingSettings & Curve;

const json = <T>(name: string): T => readOracle<T>(`peft/${name}`);

const jobOf = (name: Name, stage: number, expected: Trained, shunya: object): Promise<Job> =>
  trainingJob(bases[name], stage, expected, { shunya });

const lora = { gpt2: json<Trained & Logits>("gpt2/lora.json"), llama: json<Trained & Logits>("llama/lora.json") };

interface Logits {
  readonly lengths: readonly number[];
  readonly logits: readonly (readonly number[])[];
}

describe.each(Object.keys(bases) as Name[])("%s with LoRA is PEFT's", (name) => {
  const [initial, final] = ["initial", "final"].map((which) => oraclePath(`peft/${name}/${which}`)) as [string, string];
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
    expect(answer.records).toHaveLength(20);
    expectCurve(answer.records, lora[name]);
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

const frozen = json<Record<Name, Trained & { readonly freeze: readonly string[] }>>("frozen.json");

describe.each(Object.keys(bases) as Name[])("%s with frozen parameters is PyTorch's", (name) => {
  test.each([
    [0, 1],
    [0, 2],
    [3, 1],
    [3, 2],
  ])("20 steps at stage %i on %i ranks", async (stage, ranks) => {
    const { freeze } = frozen[name];
    const { records } = await run(ranks, await jobOf(name, stage, frozen[name], { freeze }));
    expect(records).toHaveLength(20);
    expectCurve(records, frozen[name]);
  });

  test("other parameters frozen are another training, so that the comparison can fail", async () => {
    const freeze = frozen[name].freeze.slice(1);
    const { records } = await run(1, await jobOf(name, 0, frozen[name], { freeze }));
    const losses = records.map((r) => r.loss);
    expect(relativeError(losses, frozen[name].losses)).toBeGreaterThan(1e-3);
  });
});
