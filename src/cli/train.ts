/** `shunya train`: checks the job and foretells its memory before anything is allocated, then runs it on N ranks. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { SavedCheckpoint } from "../checkpoint/save-training.ts";
import type { PreparedData } from "../data/prepare.ts";
import type { LockReport } from "../device/locked-memory.ts";
import { DataError, UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { exitCodes } from "../launch/exit-codes.ts";
import { launchRanks } from "../launch/launch.ts";
import { defaultArenaBytes } from "../launch/world.ts";
import type { Logger } from "../log/logger.ts";
import { RunReport } from "../monitor/run-report.ts";
import { formatBytes } from "../report/numbers.ts";
import { describeTerminal } from "../report/progress.ts";
import { wrap } from "../report/wrap.ts";
import { byteTokenizer, type Tokenizer } from "../tokenizer/tokenizer.ts";
import type { StepRecord } from "../zero/record.ts";
import { baseFolderOf, checkSaving, Resumption } from "./checkpoints.ts";
import { type Choice, chooseJob } from "./choice.ts";
import { keptConfigName, renderChoice, renderSettings } from "./choice-text.ts";
import { checkCompanionsThere } from "./companion-files.ts";
import { checkBaseStays, checkKinds, checkOutput, checkReplaced, LineLog } from "./destinations.ts";
import { renderDryRun } from "./dry-run.ts";
import { checkBudget, checkDisk, forecastJob } from "./foretell.ts";
import { openJob, openJobTokenizer, prepareJobData, type TrainJob, type TrainRequest } from "./job.ts";
import { measureSpeed } from "./machine-speed.ts";
import { shownModel } from "./model-flags.ts";
import { OutputLock } from "./output-lock.ts";
import { type PreparationTeller, preparationTeller } from "./preparation.ts";
import { StepPrinter } from "./step-printer.ts";
import { renderOpening, renderSummary, type ValidatedStep } from "./summary.ts";
import { TraceFile } from "./trace-file.ts";
import type { TrainMessage } from "./train-rank.ts";

export interface TrainResult {
  readonly exitCode: number;
  readonly records: readonly StepRecord[];
}

const write = (text: string): void => void process.stdout.write(text);

/** @throws ShunyaError for anything that can be known beforehand */
export async function runTrain(
  request: TrainRequest,
  logJson: string | undefined,
  logger: Logger,
): Promise<TrainResult> {
  const resumed = request.resume === undefined ? undefined : await Resumption.find(request.resume, logger);
  const asked = resumed?.complete(request) ?? request;
  const { model, config } = asked;
  if (model === undefined && asked.adapter !== undefined)
    throw new UsageError(
      `--adapter ${asked.adapter} belongs to a model; name the folder with its weights, --model DIR`,
    );
  const onProgress = preparationTeller(logger);
  const choice = model === undefined ? await chooseAndTell(asked, onProgress) : undefined;
  const described: TrainJob = choice?.job ?? { ...asked, model: model!, resume: resumed?.folder };
  await using opened = await openJob(described, onProgress);
  const job: TrainJob = { ...described, prepared: opened.prepared };
  for (const notice of opened.prepared.notices) logger.warn(notice);
  for (const warning of opened.config.warnings) logger.warn(warning);
  resumed?.check(job, opened, logger);
  resumed?.checkSteps(opened.steps);
  await checkSaving(job, resumed);
  const foretold = await forecastJob(job, opened, opened.config);
  for (const notice of checkDisk(job, opened, foretold)) logger.warn(notice);
  await checkBudget(job, opened, foretold);
  if (request.dryRun) {
    write(renderOpening(job, opened, foretold));
    write(await renderDryRun(job, opened));
    return { exitCode: exitCodes.ok, records: [] };
  }
  const { lora } = opened.config;
  if (lora && !opened.model.weights && !resumed)
    throw new UsageError(
      "LoRA trains adapters of a model's weights, and here these would be drawn at random and stay so: give a folder with weights, --model DIR",
    );
  const base = resumed ? await resumed.findBase(opened) : baseFolderOf(opened);
  if (job.output !== undefined) {
    checkKinds(job.output, lora !== undefined);
    if (job.saveEvery !== undefined && base !== undefined) checkBaseStays(job.output, base);
    await checkOutput(job.output);
    checkCompanionsThere(job.output, opened, asked.overwrite);
  }
  using _lock = job.output === undefined ? undefined : new OutputLock(job.output);
  const settingsName = choice?.settings && keptConfigName;
  if (job.output !== undefined && !asked.overwrite) await checkReplaced(job.output, { job, settingsName, resumed });
  const { plan, operationsByUnit } = foretold;
  using report = new RunReport({
    plan,
    operationsByUnit: () => operationsByUnit,
    logger,
    validates: opened.validation !== undefined,
  });
  const inputs = [...opened.prepared.inputs, ...(typeof config === "string" ? [config] : [])];
  await using log =
    logJson === undefined
      ? undefined
      : await LineLog.open(logJson, { flag: "--log-json", inputs, goesOn: resumed !== undefined, logger });
  await using trace = job.trace === undefined ? undefined : await TraceFile.open(job.trace, { inputs, logger });
  write(renderOpening(job, opened, foretold));
  write(report.begin());
  if (resumed) write(resumed.describe(opened.steps));
  const records: StepRecord[] = [];
  const validations: ValidatedStep[] = [];
  const printer = new StepPrinter({
    opened,
    report,
    log,
    terminal: describeTerminal(process.stdout, process.env),
    write,
  });
  let savedAfter: number | undefined;
  let locked: LockReport | undefined;
  let checkpoint: SavedCheckpoint | undefined;
  const launch = launchRanks({
    ranks: job.ranks,
    entry: fileURLToPath(
      new URL(import.meta.url.endsWith(".ts") ? "./train-rank.ts" : "./train-rank.js", import.meta.url),
    ),
    arenaBytes: defaultArenaBytes(),
    logger: belowProgress(logger, printer),
    onMessage: (_rank, payload) => {
      const message = payload as TrainMessage;
      if (message.type === "trace") trace?.write(message);
      else if (message.type === "started") {
        locked = message.locked;
        for (const notice of message.notices) logger.warn(notice);
      } else if (message.type === "saved") {
        savedAfter = message.afterStep;
        if (message.isBeyondFp16)
          logger.warn("the model is written in fp32, since it has weights beyond 65504, fp16's largest");
      } else if (message.type === "checkpoint") checkpoint = message.checkpoint;
      else {
        records.push(message.record);
        printer.show(message.record, message.validation, message.samples);
        if (message.validation) validations.push({ step: message.record.step, loss: message.validation.loss });
      }
    },
  });
  for (let rank = 0; rank < job.ranks; rank++) launch.send(rank, job);
  const { exitCode } = await launch.outcome;
  printer.endLine();
  if (records.length > 0) write(renderSummary(opened, foretold, records, locked, validations) + report.end());
  const skipsAtEnd = records.length - 1 - records.findLastIndex((record) => !record.skipped);
  if (skipsAtEnd > 1)
    logger.warn(
      `the last ${skipsAtEnd} steps were all skipped, so the model has not changed in them; see their lines for why`,
    );
  const step = records.at(-1)?.step ?? resumed?.step ?? 0;
  if (exitCode === exitCodes.interrupted && step < opened.steps) write(renderStop(step, opened.steps, job.output));
  if (checkpoint) write(renderCheckpoint(checkpoint));
  if (job.output !== undefined)
    write(
      tellOutput(
        job.output,
        { savedAfter, isTrained: step >= opened.steps, choice, isAdapter: lora !== undefined },
        logger,
      ),
    );
  return { exitCode, records };
}

/** A message does not go on in the middle of a progress line. */
function belowProgress(logger: Logger, printer: StepPrinter): Logger {
  const after = (say: (message: string) => void) => (message: string) => {
    printer.endLine();
    say(message);
  };
  return { ...logger, info: after(logger.info), error: after(logger.error) };
}

/** @throws DataError, ConfigError */
async function chooseAndTell(request: TrainRequest, onProgress: PreparationTeller): Promise<Choice> {
  const tokenizer = await openJobTokenizer(request);
  const prepared = await prepareForChoice(request, tokenizer, onProgress);
  const tokenCount = prepared.sources.reduce((sum, { tokens }) => sum + tokens, 0);
  const speed = measureSpeed();
  const { vocabularySize } = tokenizer;
  const choice = await chooseJob({ ...request, prepared }, { tokenCount, vocabularySize }, speed);
  write(renderChoice(choice, speed));
  return choice;
}

/** The data as a model sees them that has the tokenizer's vocabulary. @throws DataError */
async function prepareForChoice(
  request: TrainRequest,
  tokenizer: Tokenizer,
  onProgress: PreparationTeller,
): Promise<PreparedData> {
  try {
    return await prepareJobData(request, { tokenizer, vocabularySize: tokenizer.vocabularySize }, onProgress);
  } catch (error) {
    const isOther = tokenizer === byteTokenizer && request.data.some((path) => path.endsWith(".bin"));
    if (!(error instanceof DataError) || !isOther) throw error;
    throw new DataError(
      `${error.message}.\nA model that Shunya chooses reads bytes; give --model or --tokenizer for tokens of another kind`,
    );
  }
}

function renderStop(step: number, steps: number, output: string | undefined): string {
  const stopped = `Stopped after step ${step} of ${steps}.`;
  if (output !== undefined) return `${stopped}\n`;
  return `${wrap(`${stopped} Nothing was kept: --output DIR keeps the model, and with --save-every K also what --resume goes on from.`)}\n`;
}

function renderCheckpoint({ folder, step, bytes, seconds, base }: SavedCheckpoint): string {
  const rest = base === undefined ? "" : `; its frozen parameters stay in ${shownModel(base)}`;
  return `The newest checkpoint, of step ${step}, is ${folder} (${formatBytes(bytes)}, saved in ${seconds.toFixed(1)} s)${rest}.\n`;
}

interface Written {
  readonly savedAfter: number | undefined;
  /** All steps are done. */
  readonly isTrained: boolean;
  readonly choice: Choice | undefined;
  readonly isAdapter: boolean;
}

export function tellOutput(output: string, written: Written, logger: Logger): string {
  const { savedAfter, isTrained, choice, isAdapter } = written;
  if (savedAfter === undefined)
    return `${isTrained ? "All steps are done, but saving failed" : "Training did not finish"}, so no model was written to ${output}.\n`;
  if (choice?.settings) {
    try {
      writeFileSync(join(output, keptConfigName), renderSettings(choice.settings));
    } catch (error) {
      logger.warn(`the configuration could not be written beside the model: ${reasonOf(error)}`);
    }
  }
  if (!isAdapter) return `The model after step ${savedAfter} is in ${output}.\n`;
  return `${wrap(
    `The adapters after step ${savedAfter} are in ${output}: --adapter of generate and train takes them, and "shunya checkpoint merge" makes one model of them and theirs.`,
  )}\n`;
}
