/**
 * GPT-2 124M written token by token, against its floor: a pass over one token reads every weight once, so its floor is the time that
 * reading as many bytes takes, measured right before each token.
 */
import { resolveConfig } from "../src/config/resolve.ts";
import { dtypeBytes } from "../src/device/dtype.ts";
import { sampleToken } from "../src/generation/sampling.ts";
import { initializeIn } from "../src/launch/initialize.ts";
import { joinWorld } from "../src/launch/world.ts";
import { KeyValueCache } from "../src/nn/key-value-cache.ts";
import { Gpt2 } from "../src/nn/models/gpt2.ts";
import { gpt2Configs } from "../src/nn/models/gpt2-config.ts";
import type { LanguageBatch } from "../src/nn/models/language-model.ts";
import { median } from "./ranks.ts";

export interface GenerationResult {
  readonly tokensPerSecond: number;
  /** Reading the weights, over a token. */
  readonly share: number;
}

/** @param context tokens before the first that is measured */
export async function measureGeneration(
  precision: "fp32" | "bf16",
  { threads = 1, context = 64, tokens = 40 } = {},
): Promise<GenerationResult> {
  const model = new Gpt2(gpt2Configs.gpt2);
  let elements = 0;
  for (const [, parameter] of model.namedParameters()) {
    parameter.trainable = false;
    elements += parameter.elements;
  }
  elements -= gpt2Configs.gpt2.positions * gpt2Configs.gpt2.hidden; // of which a pass reads one row
  const overrides = [["train_micro_batch_size_per_gpu", 1] as const, ["bf16.enabled", precision === "bf16"] as const];
  const config = resolveConfig({ overrides: [...overrides], worldSize: 1 });
  await using engine = await initializeIn<LanguageBatch>(joinWorld({ threads }), config, { model });
  const { device } = engine;
  const { dtype } = engine.plan.residences.parameters;
  using cache = new KeyValueCache(device, model.keyValueShape, context + tokens, dtype);
  const next = async (ids: Int32Array): Promise<number> => {
    const logits = await engine.infer((tape) => model.nextLogits(tape, tape.integers(ids, [1, ids.length]), cache));
    return sampleToken(logits, { temperature: 0.8, topK: 40, seed: 1 }, cache.length);
  };
  let token = await next(new Int32Array(context));
  // As many bytes, read as fp32: converting 16-bit elements takes longer than reading them.
  const count = Math.floor((elements * dtypeBytes[dtype]) / dtypeBytes.f32);
  const weights = device.allocate("other", count * dtypeBytes.f32);
  device.issue("compute", "fill", { count, dtype: "f32", value: 0.5, dst: weights.at() });
  const block = 2 ** 16;
  const sums = device.allocate("other", 16 * Math.ceil(count / block));
  const readAll = async (): Promise<void> => {
    const args = { count, dtype: "f32", x: weights.at(), block, out: sums.at(), accumulate: false } as const;
    await device.reached(device.issue("compute", "squareSum", args));
  };
  const timed = async (body: () => Promise<unknown>): Promise<number> => {
    const begin = performance.now();
    await body();
    return (performance.now() - begin) / 1000;
  };
  const rounds: { readonly floor: number; readonly seconds: number }[] = [];
  for (let i = 1; i < tokens; i++)
    rounds.push({
      floor: await timed(readAll),
      seconds: await timed(async () => {
        token = await next(Int32Array.of(token));
      }),
    });
  for (const buffer of [weights, sums]) device.free(buffer);
  return {
    tokensPerSecond: 1 / median(rounds.map((r) => r.seconds)),
    share: median(rounds.map((r) => r.floor / r.seconds)),
  };
}
