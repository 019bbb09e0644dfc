/** What tests of oracle values share: the text that all models learned, a job like the one that made the values, and how far apart two are. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { resolveConfig } from "../../src/config/resolve.ts";
import { initializeIn } from "../../src/launch/initialize.ts";
import { joinWorld } from "../../src/launch/world.ts";
import type { LanguageBatch, LanguageModel } from "../../src/nn/models/language-model.ts";
import { isLlama } from "../../src/nn/models/models.ts";
import type { StepRecord } from "../../src/zero/record.ts";
import type { WeightSource } from "../../src/zero/weights.ts";
import type { Job } from "../laws/jobs.ts";

/** Of a file in this folder. */
export const oraclePath = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

export const readOracle = <T>(name: string): T => JSON.parse(readFileSync(oraclePath(name), "utf8")) as T;

const bytes = readFileSync(oraclePath("gpt2-tiny/tokens.bin"));
export const tokens = new Uint16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));

/** What a script in this folder trained with, as it wrote it. */
export interface TrainingSettings {
  readonly seq: number;
  readonly global_batch: number;
  readonly steps: number;
  readonly lr: number;
  readonly weight_decay: number;
  readonly clip: number;
  readonly betas: readonly [number, number];
  readonly eps: number;
}

/** What came out of each step. */
export interface Curve {
  readonly losses: readonly number[];
  readonly grad_norms: readonly number[];
}

/** The same training from the weights in a folder. @param config beside what the settings say */
export async function trainingJob(folder: string, stage: number, used: TrainingSettings, config = {}): Promise<Job> {
  await using opened = await openModelFolder(folder);
  const { lr, weight_decay, betas, eps } = used;
  return {
    model: isLlama(opened.config) ? { kind: "llama", config: opened.config } : { kind: "gpt2", config: opened.config },
    modelFolder: folder,
    tokens,
    steps: used.steps,
    seqLength: used.seq,
    config: {
      train_batch_size: used.global_batch,
      gradient_clipping: used.clip,
      optimizer: { type: "AdamW", params: { lr, weight_decay, betas, eps } },
      zero_optimization: { stage, stage3_param_persistence_threshold: 0 },
      ...config,
    },
  };
}

/** Every loss within 2e-5 and every gradient norm within 1e-4, relative. */
export function expectCurve(records: readonly StepRecord[], { losses, grad_norms }: Curve): void {
  expect(records).toHaveLength(losses.length);
  const found = [records.map((r) => r.loss), records.map((r) => r.gradNorm!)] as const;
  expect(relativeError(found[0], losses)).toBeLessThan(2e-5);
  expect(relativeError(found[1], grad_norms)).toBeLessThan(1e-4);
}

/** The largest |found - wanted| / |wanted|. */
export const relativeError = (found: readonly number[], wanted: readonly number[]): number =>
  Math.max(...wanted.map((w, i) => Math.abs(found[i]! - w) / Math.abs(w)));

/** The largest |found - wanted|. */
export const distance = (found: ArrayLike<number>, wanted: ArrayLike<number>): number =>
  Array.from(wanted).reduce((most, w, i) => Math.max(most, Math.abs(found[i]! - w)), 0);

/** Logits after the first n tokens, for each n. */
export async function logitsOf(
  model: LanguageModel,
  weights: WeightSource,
  lengths: readonly number[],
): Promise<Float32Array[]> {
  const config = resolveConfig({ overrides: [["train_micro_batch_size_per_gpu", 1]], worldSize: 1 });
  await using engine = await initializeIn<LanguageBatch>(joinWorld(), config, { model, weights });
  const found: Float32Array[] = [];
  for (const length of lengths) {
    const window = Int32Array.from(tokens.subarray(0, length));
    found.push(await engine.infer((tape) => model.nextLogits(tape, tape.integers(window, [1, length]))));
  }
  return found;
}
