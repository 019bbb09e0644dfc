/** What each rank of `shunya train` runs: the whole model on its part of the batch. */
import { saveModel } from "../checkpoint/save-model.ts";
import { DataLoader } from "../data/loader.ts";
import { InterruptedError } from "../errors/errors.ts";
import { initializeIn } from "../launch/initialize.ts";
import { joinLaunched } from "../launch/join.ts";
import { joinWorld } from "../launch/world.ts";
import { Gpt2, type LanguageBatch } from "../nn/models/gpt2.ts";
import type { Engine } from "../zero/engine.ts";
import type { StepRecord } from "../zero/record.ts";
import { type OpenedJob, openJob, type TrainJob } from "./job.ts";

/** What rank 0 tells the command. */
export type TrainMessage =
  | { readonly type: "step"; readonly record: StepRecord }
  | { readonly type: "saved"; readonly afterStep: number };

async function main(): Promise<void> {
  const job = (await joinLaunched()?.receive()) as TrainJob;
  await using opened = await openJob(job);
  const { deviceMemoryBytes } = job;
  const world = joinWorld({ threads: job.threads, ...(deviceMemoryBytes !== undefined && { deviceMemoryBytes }) });
  const model = new Gpt2(opened.model.config);
  const { weights } = opened.model;
  const given = { model, seed: job.seed, ...(weights && { weights }) };
  await using engine = await initializeIn<LanguageBatch>(world, opened.config, given);
  const tell = (message: TrainMessage): void => {
    if (world.rank === 0) joinLaunched()?.send(message);
  };
  engine.on("step", (record) => tell({ type: "step", record }));
  let stopped: InterruptedError | undefined;
  try {
    await train(engine, opened);
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    stopped = error; // all ranks stop after the same step: what they have is a whole model
  }
  if (job.output !== undefined) {
    await saveModel(engine, model.config, job.output);
    tell({ type: "saved", afterStep: engine.steps });
  }
  if (stopped) throw stopped;
}

async function train(engine: Engine<LanguageBatch>, job: OpenedJob): Promise<void> {
  const { microBatch, gradientAccumulation, worldSize } = job.config;
  const loader = new DataLoader({
    source: job.tokens,
    sampler: job.sampler,
    microBatch,
    gradientAccumulation,
    worldSize,
    rank: engine.group.rank,
  });
  const shape = [microBatch, job.seqLength];
  try {
    for (let step = 0; step < job.steps; step++) {
      for (let a = 0; a < gradientAccumulation; a++) {
        const { inputs, targets } = await loader.batch(step, a);
        const loss = await engine.forward({ inputs: { data: inputs, shape }, targets: { data: targets, shape } });
        await engine.backward(loss);
      }
      await engine.step();
    }
  } finally {
    await loader.idle();
  }
}

await main();
