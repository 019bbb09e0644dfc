/** `shunya quickstart`: what ZeRO is for, in two minutes and on this machine, by the same code as `train` and `generate`. */
import { InternalError, MemoryBudgetError } from "../errors/errors.ts";
import { defaultThreads } from "../launch/environment.ts";
import { exitCodes } from "../launch/exit-codes.ts";
import type { Logger } from "../log/logger.ts";
import { formatBytes, formatDuration } from "../report/numbers.ts";
import { type Candidate, firstThatFits } from "../report/refusal.ts";
import { wrap } from "../report/wrap.ts";
import { forecastPlacements } from "./foretell.ts";
import { runGenerate } from "./generate.ts";
import { openJob, type TrainJob } from "./job.ts";
import { type Scene, setScene } from "./quickstart-scene.ts";
import { diskGroundOf, machineShareBytes, roomOf } from "./room.ts";
import { runTrain, type TrainResult } from "./train.ts";

export interface QuickstartOptions {
  /** Everything is written here. */
  readonly folder: string;
  /** Optimizer steps of the training run. */
  readonly steps: number;
}

const prompt = "interface HTMLElement extends ";
const lineBreak = " \\\n      ";

/** Tells the story on standard output. @returns the exit code @throws UsageError where the text is not installed */
export async function runQuickstart(logger: Logger, { folder, steps }: QuickstartOptions): Promise<number> {
  const startedMs = performance.now();
  const scene = setScene(folder, steps);
  const { ranks } = scene.job;
  tell(
    `${ranks} ranks train one small GPT together, each on its own part of the text, and each has a card of only ` +
      `${formatBytes(scene.cardBytes)}. (The card is a budget: this version trains on the CPU.)`,
  );
  await refuseStage0(scene, logger);
  const { exitCode, records } = await trainWhereItFits(scene, logger);
  if (exitCode !== exitCodes.ok) return exitCode;
  const first = records[0]!.loss;
  const lately = records.slice(-20); // one step's batch is small, and its loss is noisy
  const last = lately.reduce((sum, { loss }) => sum + loss, 0) / lately.length;
  heading(3, "What has it learned?");
  tell(
    `A loss of ${first.toFixed(2)} is as unsure as a guess among ${Math.round(Math.exp(first))} bytes; ` +
      `${last.toFixed(2)} is a guess among ${Math.exp(last).toFixed(1)}. Given a few bytes, the model goes on like this:`,
  );
  command([`generate --model ${scene.trained}`, `--prompt "${prompt}" --temperature 0.5`].join(lineBreak));
  const options = { tokens: 320, temperature: 0.5 };
  const here = { ranks: 1, threads: defaultThreads(1), deviceMemoryBytes: machineShareBytes(1) };
  const generated = await runGenerate({ model: scene.trained, ...here, options }, { prompt }, logger);
  if (generated !== exitCodes.ok) return generated;
  heading(4, "What to try next");
  say(nextCommands(scene).map(shown).join("\n"));
  tell(
    `The log of every step is ${scene.logJson}. The quickstart took ${formatDuration((performance.now() - startedMs) / 1000)}.`,
  );
  return exitCodes.ok;
}

/** Stage 0 as anyone would ask for it: the refusal is the point. */
async function refuseStage0(scene: Scene, logger: Logger): Promise<void> {
  heading(1, "Plain data parallelism, which is stage 0");
  tell(
    "Every rank keeps the whole model, its gradients and its optimizer states. Before anything is allocated, Shunya runs " +
      "two steps on a device that only counts, and compares the peak with the card:",
  );
  command(trainLine(0, scene.flags));
  try {
    await runTrain({ ...atStage(scene.job, 0), overwrite: false, dryRun: false }, undefined, logger);
  } catch (error) {
    if (!(error instanceof MemoryBudgetError)) throw error;
    say(error.message);
    return;
  }
  throw new InternalError(`stage 0 fits the quickstart's card of ${scene.cardBytes} bytes`);
}

async function trainWhereItFits(scene: Scene, logger: Logger): Promise<TrainResult> {
  const { stage, need } = await lowestStage(scene);
  heading(2, `The stage that fits: ${stage}`);
  tell(
    `By the same forecast stage ${stage} needs ${formatBytes(need.device)}. Each rank keeps one part in ${scene.job.ranks} of ` +
      `${shardedAt(stage)}. So the same model trains on the same card:`,
  );
  command(trainLine(stage, [...scene.flags, `--output ${scene.trained} --overwrite`, `--log-json ${scene.logJson}`]));
  const job = atStage({ ...scene.job, output: scene.trained }, stage);
  return runTrain({ ...job, overwrite: scene.isRepeated, dryRun: false }, scene.logJson, logger);
}

async function lowestStage(scene: Scene): Promise<Candidate> {
  await using opened = await openJob(scene.job);
  const disk = diskGroundOf(opened.config.disk, scene.job.ranks);
  const fits = firstThatFits(await forecastPlacements(scene.job, opened, disk), roomOf(scene.job, disk));
  if (!fits) throw new InternalError(`no stage fits the quickstart's card of ${scene.cardBytes} bytes`);
  return fits;
}

function shardedAt(stage: number): string {
  if (stage === 1) return "the optimizer states";
  if (stage === 2) return "the optimizer states and the gradients";
  return "everything, and a layer's weights are whole only while that layer runs";
}

const atStage = (job: TrainJob, stage: number): TrainJob => ({
  ...job,
  overrides: [...job.overrides, ["zero_optimization.stage", stage]],
});

const trainLine = (stage: number, flags: readonly string[]): string =>
  [`train --stage ${stage}`, ...flags].join(lineBreak);

/** Each of them works as it is shown. */
function nextCommands({ job, trained, dataFlag }: Scene): string[] {
  const goOn = ["train --stage 3", `--config ${job.config}`, `--model ${trained}`, dataFlag];
  return [
    [`generate --model ${trained}`, '--prompt "declare function "'].join(lineBreak),
    [...goOn, "--ranks 2 --steps 100 --set optimizer.params.lr=3e-4"].join(lineBreak),
    "launch --ranks 2 examples/own-model.ts",
  ];
}

function heading(number: number, text: string): void {
  process.stdout.write(`\n── ${number}. ${text} ${"─".repeat(Math.max(0, 73 - text.length))}\n\n`);
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);
/** Prose, in lines that fit a terminal. */
const tell = (text: string): void => say(wrap(text));
const shown = (line: string): string => `  npx shunya ${line}\n`;
const command = (line: string): void => say(`\n${shown(line)}`);
