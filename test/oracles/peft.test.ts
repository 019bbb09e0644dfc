// Fine-tuning is PyTorch's and PEFT's: the same losses and gradient norms with frozen parameters and with LoRA, from the same weights
// and the same adapter. peft/ holds what they made (make_peft.py beside it).
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { isLlama } from "../../src/nn/models/models.ts";
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
