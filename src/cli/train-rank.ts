/** What each rank of `shunya train` runs: the whole model on its part of the batch. */
import { writeModelFolder } from "../checkpoint/huggingface.ts";
import { DataLoader } from "../data/loader.ts";
import { initializeIn } from "../launch/initialize.ts";
import { joinLaunched } from "../launch/join.ts";
import { joinWorld } from "../launch/world.ts";
import { Gpt2, type LanguageBatch } from "../nn/models/gpt2.ts";
import type { Gpt2Config } from "../nn/models/gpt2-config.ts";
import type { Engine } from "../zero/engine.ts";
import type { StepRecord } from "../zero/record.ts";
import { type OpenedJob, openJob, type TrainJob } from "./job.ts";

/** What rank 0 tells the command. */
export type TrainMessage = { readonly type: "step"; readonly record: StepRecord };

async function main(): Promise<void> {
  const job = (await joinLaunched()?.receive()) as TrainJob;
  await using opened = await openJob(job);
  const { deviceMemoryBytes } = job;
  const world = joinWorld({ threads: job.threads, ...(deviceMemoryBytes !== undefined && { deviceMemoryBytes }) });
  const model = new Gpt2(opened.model.config);
  const { weights } = opened.model;
  const given = { model, seed: job.seed, ...(weights && { weights }) };
  await using engine = await initializeIn<LanguageBatch>(world, opened.config, given);
  if (world.rank === 0)
    engine.on("step", (record) => joinLaunched()?.send({ type: "step", record } satisfies TrainMessage));
  await train(engine, opened);
  if (job.output !== undefined) await save(engine, model.config, job.output, world.rank === 0);
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

/** Every rank takes part; rank 0 writes the folder. */
async function save(engine: Engine<LanguageBatch>, config: Gpt2Config, folder: string, writes: boolean): Promise<void> {
  const pieces = engine.weights();
  const tensors = engine.plan.units
    .flatMap((unit) => unit.flats.flatMap((flat) => flat.pieces))
    .map(({ name, shape, elements }) => ({ name, shape, elements, dtype: "F32" as const }));
  const bytesOf = async function* (elements: number): AsyncGenerator<Uint8Array> {
    for (let done = 0; done < elements; ) {
      const { value, done: ended } = await pieces.next();
      if (ended) return;
      done += value.values.length;
      yield new Uint8Array(value.values.buffer, value.values.byteOffset, value.values.byteLength);
    }
  };
  if (writes) await writeModelFolder(folder, config, tensors, (tensor) => bytesOf(tensor.elements));
  else for await (const _ of pieces);
}

await main();
