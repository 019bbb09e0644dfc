/** What each rank of `shunya train` runs: the whole model on its part of the batch. */

import { fitsFp16, saveAdapter, saveModel } from "../checkpoint/save-model.ts";
import { type SavedCheckpoint, saveCheckpoint } from "../checkpoint/save-training.ts";
import { defaultFormat } from "../checkpoint/weight-names.ts";
import { DataLoader } from "../data/loader.ts";
import type { LockReport } from "../device/locked-memory.ts";
import { InterruptedError, NumericalError } from "../errors/errors.ts";
import { initializeIn, noticesOf } from "../launch/initialize.ts";
import { joinLaunched } from "../launch/join.ts";
import { joinWorld } from "../launch/world.ts";
import { createLogger } from "../log/logger.ts";
import type { LanguageBatch, LanguageModel } from "../nn/models/language-model.ts";
import { createModel } from "../nn/models/models.ts";
import type { Engine } from "../zero/engine.ts";
import type { StepRecord } from "../zero/record.ts";
import { checkpointsOf, runOf } from "./checkpoints.ts";
import { copyCompanions } from "./companion-files.ts";
import { baseOf, type OpenedJob, openJob, type TrainJob } from "./job.ts";
import { type Sample, SampleTexts } from "./samples.ts";
import { recordTrace, type TraceMessage } from "./trace-rank.ts";
import { type ValidationRecord, validate } from "./validation.ts";

/** What ranks tell the command: the trace each rank its own, the rest rank 0. */
export type TrainMessage =
  | TraceMessage
  | { readonly type: "started"; readonly notices: readonly string[]; readonly locked: LockReport }
  | ({ readonly type: "step"; readonly record: StepRecord } & Evaluation)
  | { readonly type: "checkpoint"; readonly checkpoint: SavedCheckpoint }
  | { readonly type: "saved"; readonly afterStep: number; readonly isBeyondFp16: boolean };

/** What is looked at between two steps. */
interface Evaluation {
  readonly validation?: ValidationRecord | undefined;
  readonly samples?: readonly Sample[] | undefined;
}

async function main(): Promise<void> {
  const job = (await joinLaunched()?.receive()) as TrainJob;
  await using opened = await openJob(job);
  const saveFailed = new AbortController();
  const model = createModel(opened.model.config);
  await using engine = await createEngine(job, opened, model, saveFailed.signal);
  const tell = (message: TrainMessage): void => {
    if (engine.group.rank === 0) joinLaunched()?.send(message);
  };
  const { lockedBytes, refusedBytes } = engine.device.locked;
  tell({ type: "started", notices: noticesOf(engine), locked: { lockedBytes, refusedBytes } });
  const sampleTexts = await sampleTextsOf(engine, job, opened, model);
  const steps = new StepTeller(engine, job, opened, sampleTexts, tell);
  if (job.trace !== undefined) recordTrace(engine, (message) => joinLaunched()?.send(message));
  const checkpoints = new Checkpoints(engine, job, opened, tell, saveFailed);
  let stopped: InterruptedError | NumericalError | undefined;
  try {
    await train(engine, opened, async () => {
      await steps.afterStep();
      await checkpoints.afterStep();
    });
  } catch (error) {
    steps.flush();
    if (!(error instanceof InterruptedError || error instanceof NumericalError)) throw error;
    stopped = error; // all ranks stop after the same step: what they have is a whole model
  }
  // After a numerical failure going on would fail the same way, so the checkpoint before it stays the newest.
  if (stopped instanceof NumericalError) await checkpoints.idle();
  else await checkpoints.atEnd();
  if (job.output !== undefined) {
    const isBeyondFp16 = await save(engine, job, opened, job.output);
    if (engine.group.rank === 0) await copyCompanions(opened, job.output);
    tell({ type: "saved", afterStep: engine.steps, isBeyondFp16 });
  }
  if (stopped) throw stopped;
}

/** @returns whether fp16 was asked for and does not hold the weights */
async function save(
  engine: Engine<LanguageBatch>,
  job: TrainJob,
  { config: { lora }, model: { config } }: OpenedJob,
  output: string,
): Promise<boolean> {
  // Days of training are not lost to one weight: a model that fp16 does not hold is written in fp32.
  const isBeyond = job.outputFormat?.dtype === "fp16" && !(await fitsFp16(engine));
  const format = { ...job.outputFormat, ...(isBeyond && { dtype: defaultFormat.dtype }) };
  if (lora) await saveAdapter(engine, { config, lora, base: baseOf(job) }, output, format.dtype);
  else await saveModel(engine, config, output, format);
  return isBeyond;
}

function createEngine(
  job: TrainJob,
  { config, model: { weights } }: OpenedJob,
  model: LanguageModel,
  signal: AbortSignal,
): Promise<Engine<LanguageBatch>> {
  const { deviceMemoryBytes, hostMemoryBytes, resume, seed, threads } = job;
  const world = joinWorld({
    threads,
    ...(deviceMemoryBytes !== undefined && { deviceMemoryBytes }),
    ...(hostMemoryBytes !== undefined && { hostMemoryBytes }),
  });
  return initializeIn<LanguageBatch>(world, config, {
    model,
    seed,
    signal,
    ...(weights && { weights }),
    // The command has told already which checkpoint it is and what changed.
    ...(resume !== undefined && { resume, logger: createLogger({ write: () => {} }) }),
  });
}

/** Undefined where no samples are asked for, or where there is no room for them. */
async function sampleTextsOf(
  engine: Engine<LanguageBatch>,
  { samplePrompts = [] }: TrainJob,
  { tokenizer }: OpenedJob,
  model: LanguageModel,
): Promise<SampleTexts | undefined> {
  if (samplePrompts.length === 0) return undefined;
  const texts = new SampleTexts(engine, { model, tokenizer, prompts: samplePrompts });
  if (await texts.fits()) return texts;
  createLogger({ rank: engine.group.rank }).warn(
    "there will be no samples: the device budget does not hold their passes beside the states of training; give a larger --device-memory",
  );
  return undefined;
}

/** Tells of each step, and with it the loss on the validation data and samples where they are due. */
class StepTeller {
  readonly #engine: Engine<LanguageBatch>;
  readonly #job: TrainJob;
  readonly #opened: OpenedJob;
  readonly #sampleTexts: SampleTexts | undefined;
  readonly #tell: (message: TrainMessage) => void;
  /** A step that waits for what is looked at after it. */
  #held: StepRecord | undefined;

  constructor(
    engine: Engine<LanguageBatch>,
    job: TrainJob,
    opened: OpenedJob,
    sampleTexts: SampleTexts | undefined,
    tell: (message: TrainMessage) => void,
  ) {
    this.#engine = engine;
    this.#job = job;
    this.#opened = opened;
    this.#sampleTexts = sampleTexts;
    this.#tell = tell;
    engine.on("step", (record) => {
      this.#held = record;
      if (!this.#isDue(record.step)) this.flush();
    });
  }

  async afterStep(): Promise<void> {
    const { validation, config } = this.#opened;
    if (!this.#held) return;
    this.flush({
      validation: validation && (await validate(this.#engine, validation, config.microBatch)),
      samples: await this.#sampleTexts?.make(),
    });
  }

  /** Tells of a step that is held, also where an error keeps it from being looked at. */
  flush(evaluation: Evaluation = {}): void {
    if (this.#held) this.#tell({ type: "step", record: this.#held, ...evaluation });
    this.#held = undefined;
  }

  #isDue(step: number): boolean {
    const { validation, steps } = this.#opened;
    const { evalEvery } = this.#job;
    const isAsked = validation !== undefined || this.#sampleTexts !== undefined;
    return isAsked && (step === steps || (evalEvery !== undefined && step % evalEvery === 0));
  }
}

/**
 * Saves after every n-th step, after the last one, and where training is stopped in between. Training goes on while one is written; a
 * failure stops all ranks after the same step.
 */
class Checkpoints {
  readonly #engine: Engine<LanguageBatch>;
  readonly #job: TrainJob;
  readonly #opened: OpenedJob;
  readonly #tell: (message: TrainMessage) => void;
  readonly #failure: AbortController;
  /** Before the first step of this run nothing is new. */
  #savedStep: number;
  #saving: Promise<void> = Promise.resolve();

  /** @param failure is aborted where a save fails: the engine's signal */
  constructor(
    engine: Engine<LanguageBatch>,
    job: TrainJob,
    opened: OpenedJob,
    tell: (message: TrainMessage) => void,
    failure: AbortController,
  ) {
    this.#engine = engine;
    this.#job = job;
    this.#opened = opened;
    this.#tell = tell;
    this.#failure = failure;
    this.#savedStep = engine.steps;
  }

  /** Begins to save where one is due, once the one before has ended. */
  async afterStep(): Promise<void> {
    const { steps } = this.#engine;
    const { saveEvery } = this.#job;
    if (saveEvery === undefined || steps % saveEvery !== 0) return;
    await this.#saving;
    this.#begin();
  }

  /** Saves the last step too, and waits until everything is published. @throws CheckpointError */
  async atEnd(): Promise<void> {
    await this.#saving;
    this.#begin();
    await this.#saving;
  }

  /** Waits until what has begun is published. @throws CheckpointError */
  idle(): Promise<void> {
    return this.#saving;
  }

  #begin(): void {
    const { saveEvery, output } = this.#job;
    const { steps } = this.#engine;
    if (saveEvery === undefined || output === undefined || this.#savedStep === steps) return;
    this.#savedStep = steps;
    this.#saving = this.#save(checkpointsOf(output));
    this.#saving.catch(() => this.#failure.abort()); // all ranks then stop after the same step, and hear of it at the end
  }

  async #save(folder: string): Promise<void> {
    const { keep, resume } = this.#job;
    const checkpoint = await saveCheckpoint(this.#engine, folder, {
      run: runOf(this.#job, this.#opened),
      ...(keep !== undefined && { keep }),
      ...(resume !== undefined && { alsoKept: resume }),
    });
    this.#tell({ type: "checkpoint", checkpoint });
  }
}

async function train(engine: Engine<LanguageBatch>, job: OpenedJob, afterStep: () => Promise<void>): Promise<void> {
  const { microBatch, gradientAccumulation, worldSize } = job.config;
  const loader = new DataLoader({
    rows: job.rows,
    sampler: job.sampler,
    microBatch,
    gradientAccumulation,
    worldSize,
    rank: engine.group.rank,
  });
  const shape = [microBatch, job.seqLength];
  try {
    while (engine.steps < job.steps) {
      const step = engine.steps;
      for (let a = 0; a < gradientAccumulation; a++) {
        const { inputs, targets, stepTargets } = await loader.batch(step, a);
        const batch = { inputs: { data: inputs, shape }, targets: { data: targets, shape } };
        const loss = await engine.forward(batch, { stepTargets });
        await engine.backward(loss);
      }
      await engine.step();
      await afterStep();
    }
  } finally {
    await loader.idle();
  }
}

await main();
