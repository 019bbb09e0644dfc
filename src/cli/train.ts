/** `shunya train`: checks the job and foretells its memory before anything is allocated, then runs it on N ranks. */

import { once } from "node:events";
import { createWriteStream, type WriteStream } from "node:fs";
import { fileURLToPath } from "node:url";
import type { ResolvedConfig, Stage } from "../config/types.ts";
import { memoryKinds } from "../device/ledger.ts";
import { MemoryBudgetError, UsageError } from "../errors/errors.ts";
import { launchRanks } from "../launch/launch.ts";
import { defaultArenaBytes } from "../launch/world.ts";
import type { Logger } from "../log/logger.ts";
import { Gpt2, type LanguageBatch } from "../nn/models/gpt2.ts";
import { describeTerminal, renderProgress } from "../report/progress.ts";
import { renderRefusal, type StagePeak } from "../report/refusal.ts";
import { renderStepRecord, stepRecord } from "../report/step-record.ts";
import { type Forecast, forecast } from "../zero/forecast.ts";
import type { StepRecord } from "../zero/record.ts";
import { type OpenedJob, openJob, type TrainJob } from "./job.ts";
import { renderOpening, renderSummary } from "./summary.ts";
import type { TrainMessage } from "./train-rank.ts";

export interface TrainResult {
  readonly exitCode: number;
  readonly records: readonly StepRecord[];
}

/** @throws ShunyaError for anything that can be known beforehand */
export async function runTrain(job: TrainJob, logJson: string | undefined, logger: Logger): Promise<TrainResult> {
  await using opened = await openJob(job);
  for (const warning of opened.config.warnings) logger.warn(warning);
  const foretold = await forecastJob(job, opened, opened.config);
  await checkBudget(job, opened, foretold);
  process.stdout.write(renderOpening(job, opened, foretold));
  await using log = logJson === undefined ? undefined : await openLog(logJson);
  const records: StepRecord[] = [];
  const show = stepPrinter(opened, log?.stream);
  const launch = launchRanks({
    ranks: job.ranks,
    entry: fileURLToPath(
      new URL(import.meta.url.endsWith(".ts") ? "./train-rank.ts" : "./train-rank.js", import.meta.url),
    ),
    args: [JSON.stringify(job)],
    arenaBytes: defaultArenaBytes(),
    logger,
    onMessage: (_rank, payload) => {
      const { record } = payload as TrainMessage;
      records.push(record);
      show(record);
    },
  });
  const { exitCode } = await launch.outcome;
  if (records.length > 0) process.stdout.write(renderSummary(opened, foretold, records));
  if (exitCode === 0 && job.output !== undefined) process.stdout.write(`The model is in ${job.output}.\n`);
  return { exitCode, records };
}

export function forecastJob(job: TrainJob, opened: OpenedJob, config: ResolvedConfig): Promise<Forecast> {
  const shape = [config.microBatch, opened.seqLength];
  const data = new Int32Array(config.microBatch * opened.seqLength);
  return forecast<LanguageBatch>({
    model: new Gpt2(opened.model.config),
    config,
    threads: job.threads,
    batch: { inputs: { data, shape }, targets: { data, shape } },
  });
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
async function checkBudget(job: TrainJob, opened: OpenedJob, foretold: Forecast): Promise<void> {
  const budgetBytes = job.deviceMemoryBytes;
  if (budgetBytes === undefined || foretold.peakBytes <= budgetBytes) return;
  const stages = await forecastStages(job, opened);
  const { stage } = opened.config;
  const message = renderRefusal({ stage, budgetBytes, atPeak: foretold.atPeak, stages });
  throw new MemoryBudgetError("device", foretold.peakBytes, budgetBytes, message);
}

async function openLog(path: string): Promise<{ stream: WriteStream } & AsyncDisposable> {
  const stream = createWriteStream(path);
  await once(stream, "open").catch((error: Error) => {
    throw new UsageError(`--log-json ${path} cannot be written: ${error.message}`);
  });
  const close = async (): Promise<void> => {
    stream.end();
    await once(stream, "close");
  };
  return { stream, [Symbol.asyncDispose]: close };
}

function stepPrinter(opened: OpenedJob, log: WriteStream | undefined): (record: StepRecord) => void {
  const terminal = describeTerminal(process.stdout, process.env);
  const { config, steps } = opened;
  const tokensPerStep = config.trainBatch * opened.seqLength;
  let seconds = 0;
  return (record) => {
    seconds += record.seconds;
    const summary = { ...record, tokensPerSecond: tokensPerStep / record.seconds };
    log?.write(renderStepRecord(stepRecord(summary, record.ranks)));
    const last = record.step === steps;
    const due = terminal.isTerminal || record.step === 1 || last || record.step % config.stepsPerPrint === 0;
    if (!due) return;
    const peakBytes = Math.max(...record.ranks.map((r) => memoryKinds.reduce((sum, k) => sum + r.memory.atPeak[k], 0)));
    const secondsLeft = (seconds / record.step) * (steps - record.step);
    process.stdout.write(renderProgress({ ...summary, steps, peakBytes, secondsLeft }, terminal));
    if (terminal.isTerminal && last) process.stdout.write("\n");
  };
}
