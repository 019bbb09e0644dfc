/** `shunya train`: checks the job and foretells its memory before anything is allocated, then runs it on N ranks. */
import { totalmem } from "node:os";
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
import { checkOutput, LineLog } from "./destinations.ts";
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
  if (job.output !== undefined) await checkOutput(job.output);
  const inputs = [...job.data, ...(job.config === undefined ? [] : [job.config])];
  await using log = logJson === undefined ? undefined : await LineLog.open(logJson, inputs, logger);
  process.stdout.write(renderOpening(job, opened, foretold));
  const records: StepRecord[] = [];
  const show = stepPrinter(opened, log);
  let savedAfter: number | undefined;
  const launch = launchRanks({
    ranks: job.ranks,
    entry: fileURLToPath(
      new URL(import.meta.url.endsWith(".ts") ? "./train-rank.ts" : "./train-rank.js", import.meta.url),
    ),
    arenaBytes: defaultArenaBytes(),
    logger,
    onMessage: (_rank, payload) => {
      const message = payload as TrainMessage;
      if (message.type === "saved") savedAfter = message.afterStep;
      else {
        records.push(message.record);
        show(message.record);
      }
    },
  });
  for (let rank = 0; rank < job.ranks; rank++) launch.send(rank, job);
  const { exitCode } = await launch.outcome;
  if (records.length > 0) process.stdout.write(renderSummary(opened, foretold, records));
  if (job.output !== undefined)
    process.stdout.write(
      savedAfter === undefined
        ? `Training did not finish, so no model was written to ${job.output}.\n`
        : `The model after step ${savedAfter} is in ${job.output}.\n`,
    );
  return { exitCode, records };
}

/** Far beyond any device, and small enough to be written down. */
const mostTokensOfMicroBatch = 2 ** 24;

/** @throws UsageError for a micro-batch beyond all devices */
async function forecastJob(job: TrainJob, opened: OpenedJob, config: ResolvedConfig): Promise<Forecast> {
  const shape = [config.microBatch, opened.seqLength];
  if (config.microBatch * opened.seqLength > mostTokensOfMicroBatch)
    throw new UsageError(
      `a micro-batch of ${config.microBatch} windows of ${opened.seqLength} tokens is beyond any device; ` +
        `wanted at most ${mostTokensOfMicroBatch} tokens: lower train_micro_batch_size_per_gpu`,
    );
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
function machineShareBytes(ranks: number): number {
  const containerBytes = process.constrainedMemory() || Number.POSITIVE_INFINITY;
  return Math.floor(Math.min(totalmem(), containerBytes) / ranks);
}

function stepPrinter(opened: OpenedJob, log: LineLog | undefined): (record: StepRecord) => void {
  const terminal = describeTerminal(process.stdout, process.env);
  const { config, steps } = opened;
  const tokensPerStep = config.trainBatch * opened.seqLength;
  let seconds = 0;
  return (record) => {
    seconds += record.seconds;
    const summary = { ...record, tokensPerSecond: tokensPerStep / record.seconds };
    log?.write(renderStepRecord(stepRecord(summary, record.ranks)));
    const last = record.step === steps;
    const due = terminal.isTerminal || record.step === 1 || last || record.step % config.reporting.stepsPerPrint === 0;
    if (!due) return;
    const peakBytes = Math.max(...record.ranks.map((r) => memoryKinds.reduce((sum, k) => sum + r.memory.atPeak[k], 0)));
    const secondsLeft = (seconds / record.step) * (steps - record.step);
    process.stdout.write(renderProgress({ ...summary, steps, peakBytes, secondsLeft }, terminal));
    if (terminal.isTerminal && last) process.stdout.write("\n");
  };
}
