/** A rank of `shunya doctor --calibrate`: trains a small GPT for a few steps, and tells how long its ops took for how much work. */

import { parseConfigObject } from "../config/json.ts";
import { resolveConfig } from "../config/resolve.ts";
import { type Tally, tallySpan } from "../hardware/calibration.ts";
import { initializeIn } from "../launch/initialize.ts";
import { joinLaunched } from "../launch/join.ts";
import { joinWorld } from "../launch/world.ts";
import { Gpt2, type LanguageBatch } from "../nn/models/gpt2.ts";
import type { Gpt2Config } from "../nn/models/gpt2-config.ts";
import { quiet } from "../zero/phase-clock.ts";

export interface CalibrationJob {
  readonly settings: object;
  readonly model: Gpt2Config;
  readonly steps: number;
}

export type CalibrationMessage = readonly (readonly [sort: string, tally: Tally])[];

async function main(): Promise<void> {
  const job = (await joinLaunched()?.receive()) as CalibrationJob;
  const world = joinWorld({ threads: 1 });
  const { worldSize, rank } = world;
  const config = resolveConfig({ file: parseConfigObject(job.settings), worldSize });
  await using engine = await initializeIn<LanguageBatch>(world, config, { model: new Gpt2(job.model) });
  const { positions, vocabularySize } = job.model;
  const shape = [config.microBatch, positions];
  const data = Int32Array.from({ length: config.microBatch * positions }, (_, i) => (i * 7919 + rank) % vocabularySize);
  const batch = { inputs: { data, shape }, targets: { data, shape } };
  const tallies = new Map<string, Tally>();
  for (let step = 0; step < job.steps; step++) {
    // The first step touches memory for the first time.
    if (step === 1)
      engine.device.timeline.record({
        queues: (spans) => {
          for (const span of spans) tallySpan(tallies, span, worldSize);
        },
        program: () => {},
      });
    await engine.backward(await engine.forward(batch));
    await engine.step();
    await quiet(engine.device);
  }
  engine.device.timeline.record(undefined);
  joinLaunched()?.send([...tallies] satisfies CalibrationMessage);
}

await main();
