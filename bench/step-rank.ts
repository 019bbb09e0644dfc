/** One rank of the whole-step benchmark: between two steps it measures what the machine gives at that moment. */

import { resolveConfig } from "../src/config/resolve.ts";
import { loadNative } from "../src/device/native.ts";
import { initializeIn } from "../src/launch/initialize.ts";
import { joinLaunched } from "../src/launch/join.ts";
import { joinWorld } from "../src/launch/world.ts";
import { Gpt2, type LanguageBatch } from "../src/nn/models/gpt2.ts";
import { gpt2Configs } from "../src/nn/models/gpt2-config.ts";
import type { Engine } from "../src/zero/engine.ts";

export interface StepJob {
  readonly stage: number;
  readonly precision: "bf16" | "fp32";
  readonly batch: number;
  readonly seq: number;
  readonly rounds: number;
}

/** Seconds of one step, and the limits measured right before it. */
export interface StepSample {
  readonly seconds: number;
  /** Floating-point operations a second of one thread. */
  readonly peak: number;
  /** Bytes a second of reading and writing in place. */
  readonly stream: number;
}

const job = JSON.parse(process.argv[2]!) as StepJob;
const world = joinWorld({ threads: 1 });
const config = resolveConfig({
  worldSize: world.worldSize,
  overrides: [
    ["zero_optimization.stage", job.stage],
    ["bf16.enabled", job.precision === "bf16"],
    ["train_micro_batch_size_per_gpu", job.batch],
  ],
});
const model = new Gpt2({ ...gpt2Configs.gpt2, embeddingDropout: 0, attentionDropout: 0, residualDropout: 0 });
await using engine = await initializeIn<LanguageBatch>(world, config, { model });
const ids = Int32Array.from({ length: job.batch * job.seq + 1 }, (_, i) => (i * 7919 + world.rank) % 50257);
const shape = [job.batch, job.seq];
const inputs = { data: ids.slice(0, -1), shape };
const targets = { data: ids.slice(1), shape };
const stream = await streamPass(engine);

const samples: StepSample[] = [];
for (let round = -1; round < job.rounds; round++) {
  const peak = loadNative().measurePeak(job.precision === "bf16" ? 1 : 0);
  const bandwidth = await stream();
  await engine.group.exchange(new Float64Array(1), "the start of a round");
  const start = performance.now();
  await engine.backward(await engine.forward({ inputs, targets }));
  await engine.step();
  for (const queue of ["compute", "collective"] as const) await engine.device.reached(engine.device.mark(queue));
  const seconds = (performance.now() - start) / 1000;
  if (round >= 0) samples.push({ seconds, peak, stream: bandwidth }); // the first one touches memory for the first time
}
joinLaunched()?.send(samples);

/** Multiplies 64 MiB of fp32 by one, in place: what memory gives a kernel that reads and writes. */
async function streamPass(engine: Engine<LanguageBatch>): Promise<() => Promise<number>> {
  const { device } = engine;
  const count = 16 << 20;
  const buffer = device.allocate("other", count * 4);
  const pass = async (): Promise<number> => {
    const start = performance.now();
    device.issue("compute", "scale", { count, dtype: "f32", x: buffer.at(), factor: 1, out: buffer.at() });
    await device.reached(device.mark("compute"));
    return (count * 8 * 1000) / (performance.now() - start);
  };
  device.issue("compute", "fill", { count, dtype: "f32", value: 1, dst: buffer.at() });
  await pass();
  return async () => Math.max(await pass(), await pass(), await pass());
}
