/** What a job will take, before anything is allocated: forecasts, and the refusal of what does not fit. */
import { totalmem } from "node:os";
import type { ResolvedConfig, Stage } from "../config/types.ts";
import { MemoryBudgetError, UsageError } from "../errors/errors.ts";
import { Gpt2, type LanguageBatch } from "../nn/models/gpt2.ts";
import type { Gpt2Config } from "../nn/models/gpt2-config.ts";
import { renderRefusal, type StagePeak } from "../report/refusal.ts";
import { type Forecast, forecast } from "../zero/forecast.ts";
import type { OpenedJob, TrainJob } from "./job.ts";

/** Far beyond any device, and small enough to be written down. */
const mostTokensOfMicroBatch = 2 ** 24;

export interface ForecastRun {
  readonly config: ResolvedConfig;
  readonly seqLength: number;
  readonly threads: number;
}

/** @throws UsageError for a micro-batch beyond all devices */
export async function forecastShape(model: Gpt2Config, { config, seqLength, threads }: ForecastRun): Promise<Forecast> {
  const shape = [config.microBatch, seqLength];
  if (config.microBatch * seqLength > mostTokensOfMicroBatch)
    throw new UsageError(
      `a micro-batch of ${config.microBatch} windows of ${seqLength} tokens is beyond any device; ` +
        `wanted at most ${mostTokensOfMicroBatch} tokens: lower train_micro_batch_size_per_gpu`,
    );
  const data = new Int32Array(config.microBatch * seqLength);
  return forecast<LanguageBatch>({
    model: new Gpt2(model),
    config,
    threads,
    batch: { inputs: { data, shape }, targets: { data, shape } },
  });
}

export function forecastJob(job: TrainJob, opened: OpenedJob, config: ResolvedConfig): Promise<Forecast> {
  return forecastShape(opened.model.config, { config, seqLength: opened.seqLength, threads: job.threads });
}

/** What the job would need at every stage, lowest first. */
export async function forecastStages(job: TrainJob, opened: OpenedJob): Promise<StagePeak[]> {
  const stages: StagePeak[] = [];
  for (const stage of [0, 1, 2, 3] as Stage[]) {
    const { peakBytes } = await forecastJob(job, opened, { ...opened.config, stage });
    stages.push({ stage, peakBytes });
  }
  return stages;
}

/** @throws MemoryBudgetError with the table of where the bytes would go and the stage that fits */
export async function checkBudget(job: TrainJob, opened: OpenedJob, foretold: Forecast): Promise<void> {
  const budgetBytes = job.deviceMemoryBytes ?? machineShareBytes(job.ranks);
  if (foretold.peakBytes <= budgetBytes) return;
  const stages = await forecastStages(job, opened);
  const { stage } = opened.config;
  const refusal = renderRefusal({ stage, budgetBytes, atPeak: foretold.atPeak, stages });
  const share = "(The budget is a rank's share of this machine's memory, since --device-memory was not given.)";
  const message = job.deviceMemoryBytes === undefined ? `${refusal}\n${share}` : refusal;
  throw new MemoryBudgetError("device", foretold.peakBytes, budgetBytes, message);
}

/** More than that, and the system would end the ranks in mid-training. A container may have less than its machine. */
export function machineShareBytes(ranks: number): number {
  const containerBytes = process.constrainedMemory() || Number.POSITIVE_INFINITY;
  return Math.floor(Math.min(totalmem(), containerBytes) / ranks);
}
