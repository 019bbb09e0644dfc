/** `--save-every`, `--keep` and `--resume` of `shunya train`: what is gone on from, what changed, and whether saving mixes two runs. */
import { join, resolve } from "node:path";
import { openBase } from "../checkpoint/base-weights.ts";
import { publishedSteps } from "../checkpoint/checkpoint-folders.ts";
import { checkFits, findTraining } from "../checkpoint/find-training.ts";
import { savedGeneration } from "../checkpoint/saved-model.ts";
import { changedSettings } from "../checkpoint/settings.ts";
import type { Json, JsonObject, Manifest } from "../checkpoint/training-manifest.ts";
import { UsageError } from "../errors/errors.ts";
import type { Logger } from "../log/logger.ts";
import { describeModel } from "../nn/describe.ts";
import { createModel, type ModelConfig } from "../nn/models/models.ts";
import { tuned } from "../nn/tuning.ts";
import { formatMany } from "../report/numbers.ts";
import { byteTokenizer } from "../tokenizer/tokenizer.ts";
import { baseOf, type OpenedJob, type TrainJob, type TrainRequest } from "./job.ts";

export const checkpointsOf = (output: string): string => join(output, "checkpoints");

/** What a checkpoint keeps of a job beside the engine's configuration. */
export function runOf(
  job: TrainJob,
  { config, model, prepared, tokenizer, generation, rows, sampler, seqLength, steps }: OpenedJob,
): JsonObject {
  const weights = prepared.sources.flatMap(({ weight }) => (weight === undefined ? [] : [weight]));
  return {
    model: model.config as unknown as JsonObject,
    ...(config.lora && { base: baseOf(job), adapter: job.adapter === undefined ? null : resolve(job.adapter) }),
    data: {
      ...{ tokens: rows.tokens, windows: sampler.rowCount, seqLength, shuffle: job.shuffle },
      ...(prepared.kind === "instructions" && { kind: prepared.kind }),
      ...(weights.length > 0 && { weights }),
    },
    ...(tokenizer === byteTokenizer ? {} : { tokenizer: tokenizer.name }),
    ...(generation !== undefined && { generation }),
    // What was chosen for a user who named nothing is needed again when the run goes on.
    chosen: typeof job.config === "object" ? { config: job.config as Json, steps } : null,
  };
}

/** The folder that checkpoints of a new run leave frozen parameters in; undefined: they hold everything. */
export function baseFolderOf({ config, model: { config: shape, weights } }: OpenedJob): string | undefined {
  const parameters = tuned(createModel(shape), config).namedParameters();
  return parameters.flatMap(([name, { trainable }]) => (trainable ? [] : (weights?.folderOf(name) ?? [])))[0];
}

/** Where a run goes on from. */
export class Resumption {
  readonly folder: string;
  readonly #manifest: Manifest;
  /** Newer ones that were passed over. */
  readonly #damaged: ReadonlySet<string>;

  private constructor(folder: string, manifest: Manifest, damaged: ReadonlySet<string>) {
    this.folder = folder;
    this.#manifest = manifest;
    this.#damaged = damaged;
  }

  /**
   * Where an older one may have to be taken, reads all of it, so that this is known before anything starts. One that is named is checked
   * by the ranks, as they read it. @throws CheckpointError where all are damaged
   */
  static async find(path: string, logger: Logger): Promise<Resumption> {
    const damaged = new Set<string>();
    const onDamaged = (text: string, folder: string): void => {
      damaged.add(folder);
      logger.warn(`an older checkpoint is taken, since ${text}`);
    };
    await using found = await findTraining(path, { onDamaged, checksAsRead: true });
    return new Resumption(found.folder, found.manifest, damaged);
  }

  get step(): number {
    return this.#manifest.step;
  }

  /** A request without a model means the saved one, and what had been chosen with it; without a tokenizer the saved one. */
  complete(asked: TrainRequest): TrainRequest {
    const { tokenizer, model, base, data, chosen } = this.#manifest.run as {
      tokenizer?: string;
      base?: string | null;
      model?: ModelConfig;
      data?: { seqLength: number };
      chosen?: { config: object; steps: number } | null;
    };
    const request = { ...asked, tokenizer: asked.tokenizer ?? tokenizer };
    if (request.model !== undefined) return request;
    const generation = savedGeneration(this.#manifest);
    if (!model) throw new UsageError(`${this.folder} does not say of what model it is; give --model`);
    const config = request.config ?? chosen?.config;
    const seqLength = request.seqLength ?? data?.seqLength;
    return {
      ...request,
      model,
      generation,
      base: base ?? undefined,
      config,
      seqLength,
      steps: request.steps ?? chosen?.steps,
    };
  }

  /** Says what is not as it was. @throws CheckpointError where the model or the optimizer's states do not fit */
  check(job: TrainJob, opened: OpenedJob, logger: Logger): void {
    const { config, model } = opened;
    checkFits(
      { folder: this.folder, manifest: this.#manifest },
      describeModel(tuned(createModel(model.config), config)).description,
      config,
    );
    this.#checkAdapter(job, logger);
    // Neither what was chosen nor generation acts on training. Of another base the values are compared, and of an adapter it was told.
    const { chosen: _chosen, generation: _generation, base: _base, adapter: _adapter, ...run } = runOf(job, opened);
    const changed = changedSettings(this.#manifest, { seed: job.seed, config, run });
    if (changed.length === 0) return;
    const lines = changed.map((text) => `\n  ${text}`).join("");
    logger.warn(`what follows is not what a run without a stop would give, since settings changed:${lines}`);
  }

  /** @returns the folder that holds frozen parameters for this checkpoint; undefined where it has them all @throws CheckpointError */
  async findBase({ model: { weights } }: OpenedJob): Promise<string | undefined> {
    await using base = await openBase({ folder: this.folder, manifest: this.#manifest }, weights);
    return base?.folder;
  }

  /** Adapters come from the checkpoint: those that are named say only how they are made. */
  #checkAdapter({ adapter }: Pick<TrainJob, "adapter">, logger: Logger): void {
    const { adapter: was } = this.#manifest.run as { adapter?: string | null };
    if (adapter === undefined || was === undefined || was === resolve(adapter)) return;
    const began = was === null ? "without one" : `with ${was}`;
    logger.warn(
      `--adapter ${adapter} is not where the run goes on from: it began ${began}, and has its adapters from ${this.folder}`,
    );
  }

  /** @param steps of the whole run @throws UsageError where the checkpoint is of a later step */
  checkSteps(steps: number): void {
    if (this.step <= steps) return;
    throw new UsageError(
      `--resume ${this.folder} goes on after step ${this.step}, and a run of ${formatMany(steps, "step")} has ended by then: nothing is left to ` +
        `train. --steps counts from the beginning of the run: give more than ${this.step}`,
    );
  }

  /** What is said before the first step. @param steps of the whole run */
  describe(steps: number): string {
    const begin = `Going on after step ${this.step} of ${steps}, from ${this.folder}.\n`;
    return this.step < steps ? begin : `${begin}Nothing is left to train; --steps above ${steps} goes on.\n`;
  }

  isDamaged(folder: string): boolean {
    return this.#damaged.has(folder);
  }
}

/**
 * Checkpoints of two runs in one folder would pass for one run's, and the newest might be the other's.
 * @throws UsageError where the folder to save into holds checkpoints that this run did not come by
 */
export async function checkSaving(job: TrainJob, resumed: Resumption | undefined): Promise<void> {
  if (job.saveEvery === undefined) {
    if (job.keep === undefined) return;
    throw new UsageError("--keep says how many checkpoints of --save-every K stay; give that too");
  }
  if (job.output === undefined)
    throw new UsageError("--save-every needs --output DIR: checkpoints go to DIR/checkpoints");
  const folder = checkpointsOf(job.output);
  const steps = await publishedSteps(folder);
  const newer = steps.find((s) => s.step > (resumed?.step ?? -1) && !resumed?.isDamaged(s.folder));
  if (!newer) return;
  if (resumed)
    throw new UsageError(
      `${folder} holds a checkpoint of step ${newer.step}, later than step ${resumed.step}, where this run goes on from; ` +
        "it would pass for one of this run: move it away, or give another --output",
    );
  throw new UsageError(
    `${folder} holds checkpoints of a run, up to step ${newer.step}: give --resume ${folder} to go on from it, or another --output`,
  );
}
