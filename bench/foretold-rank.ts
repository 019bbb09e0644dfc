/** One rank of the benchmark of foretold times: trains some steps as `train` does, and sends how long they took. */
import { parseConfigObject } from "../src/config/json.ts";
import { resolveConfig } from "../src/config/resolve.ts";
import { initializeIn } from "../src/launch/initialize.ts";
import { joinLaunched } from "../src/launch/join.ts";
import { joinWorld } from "../src/launch/world.ts";
import { Gpt2, type LanguageBatch } from "../src/nn/models/gpt2.ts";
import { gpt2Configs } from "../src/nn/models/gpt2-config.ts";

export interface ForetoldJob {
  readonly settings: object;
  readonly seqLength: number;
  readonly steps: number;
}

const job = JSON.parse(process.argv[2]!) as ForetoldJob;
const world = joinWorld();
const config = resolveConfig({ file: parseConfigObject(job.settings), worldSize: world.worldSize });
await using engine = await initializeIn<LanguageBatch>(world, config, { model: new Gpt2(gpt2Configs.gpt2) });
const shape = [config.microBatch, job.seqLength];
const data = Int32Array.from({ length: shape[0]! * shape[1]! }, (_, i) => (i * 7919 + world.rank) % 50257);
const batch = { inputs: { data, shape }, targets: { data, shape } };
const seconds: number[] = [];
engine.on("step", (record) => seconds.push(record.seconds));
for (let step = 0; step < job.steps; step++) {
  for (let m = 0; m < config.gradientAccumulation; m++) await engine.backward(await engine.forward(batch));
  await engine.step();
}
joinLaunched()?.send(seconds.slice(2)); // the first touches memory for the first time, the second hides its update
