// Engines in this process: a world of one on the CPU device, or any world on the simulated one.
import { initializeIn } from "../../src/launch/initialize.ts";
import { joinWorld } from "../../src/launch/world.ts";
import type { LanguageBatch } from "../../src/nn/models/gpt2.ts";
import type { Engine } from "../../src/zero/engine.ts";
import type { StepRecord } from "../../src/zero/record.ts";
import type { WeightSource } from "../../src/zero/weights.ts";
import { batchOf, configOf, type Job } from "../laws/jobs.ts";
import { buildModel, gpt2 } from "../laws/models.ts";

export interface EngineSettings {
  readonly job: Job;
  readonly deviceMemoryBytes?: number;
  readonly signal?: AbortSignal;
  readonly weights?: WeightSource;
}

export const smallJob = (more: Partial<Job> = {}): Job => ({
  model: gpt2(),
  config: { train_micro_batch_size_per_gpu: 2, zero_optimization: { stage: 3 } },
  steps: 3,
  seqLength: 16,
  ...more,
});

/** A world of one. */
export function engineOf({ job, deviceMemoryBytes, ...given }: EngineSettings): Promise<Engine<LanguageBatch>> {
  const world = joinWorld({ threads: job.threads ?? 1, ...(deviceMemoryBytes !== undefined && { deviceMemoryBytes }) });
  return initializeIn(world, configOf(job.config, 1), { model: buildModel(job.model, 0), ...given });
}

/** One whole step on the job's own data. */
export async function trainStep(engine: Engine<LanguageBatch>, job: Job, step: number): Promise<StepRecord> {
  const { trainBatch, microBatch, gradientAccumulation } = engine.plan.config;
  for (let a = 0; a < gradientAccumulation; a++)
    await engine.backward(await engine.forward(batchOf(job, step * trainBatch + a * microBatch, microBatch)));
  return (await engine.step())!;
}
