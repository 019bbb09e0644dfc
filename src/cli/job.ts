/** A training job as plain data: what the command line said, checked, and in a form that every rank reads alike. */
import { type ModelFolder, openModelFolder } from "../checkpoint/huggingface.ts";
import { type ParsedConfig, parseConfigFile, parseConfigObject } from "../config/json.ts";
import { type ConfigResolution, type Override, type ResolveInput, resolveConfig } from "../config/resolve.ts";
import { WindowSampler } from "../data/sampler.ts";
import { openTokens, type TokenSource } from "../data/tokens.ts";
import { UsageError } from "../errors/errors.ts";
import { checkFolders } from "../launch/offload.ts";
import { describeModel } from "../nn/describe.ts";
import { createModel, longestSequence, type ModelConfig, publishedConfig } from "../nn/models/models.ts";
import { elementsOf } from "../tensor/tensor.ts";

/** What `shunya train` was asked for. */
export interface TrainRequest extends Omit<TrainJob, "model"> {
  /** Undefined: chosen (choice.ts), and so is a configuration that is left out. */
  readonly model: TrainJob["model"] | undefined;
  /** A model that another run left in `output` is replaced. */
  readonly overwrite: boolean;
  /** Only the plan is shown. */
  readonly dryRun: boolean;
}

export interface TrainJob {
  /** A file, or what was chosen. */
  readonly config: string | object | undefined;
  readonly overrides: readonly Override[];
  /** A published name, a folder, or a shape that was chosen. */
  readonly model: string | ModelConfig;
  readonly data: readonly string[];
  readonly ranks: number;
  /** Undefined: one epoch. */
  readonly steps: number | undefined;
  /** Undefined: the longest that the model takes. */
  readonly seqLength: number | undefined;
  readonly seed: number;
  readonly shuffle: boolean;
  /** Budgets of each rank. Undefined: its share of this machine's memory. */
  readonly deviceMemoryBytes: number | undefined;
  readonly hostMemoryBytes: number | undefined;
  readonly threads: number;
  readonly output: string | undefined;
  /** A checkpoint after every so many steps. Undefined: none. */
  readonly saveEvery: number | undefined;
  /** How many checkpoints stay. Undefined: all. */
  readonly keep: number | undefined;
  /** A checkpoint to go on from, or a folder of them. */
  readonly resume: string | undefined;
  /** A file for what every queue did and when. */
  readonly trace: string | undefined;
}

/** A job with everything it names opened and checked. */
export interface OpenedJob extends AsyncDisposable {
  readonly config: ConfigResolution;
  readonly model: OpenedModel;
  readonly tokens: TokenSource;
  readonly sampler: WindowSampler;
  readonly seqLength: number;
  readonly steps: number;
}

export interface OpenedModel extends AsyncDisposable {
  readonly config: ModelConfig;
  readonly weights: ModelFolder["weights"];
}

/** A published name, a folder with config.json and perhaps weights, or a shape. */
export async function openModel(model: TrainJob["model"]): Promise<OpenedModel> {
  const config = typeof model === "string" ? publishedConfig(model) : model;
  if (config === undefined) return openModelFolder(model as string);
  return { config, weights: undefined, [Symbol.asyncDispose]: async () => {} };
}

/** The file or object of a job as the configuration reader takes it. */
export function parseJobConfig(config: TrainJob["config"]): ParsedConfig | undefined {
  if (config === undefined) return undefined;
  return typeof config === "string" ? parseConfigFile(config) : parseConfigObject(config);
}

/** @throws ConfigError, ModelError, DataError, UsageError */
export async function openJob(job: TrainJob): Promise<OpenedJob> {
  const file = parseJobConfig(job.config);
  const model = await openModel(job.model);
  try {
    const longest = longestSequence(model.config);
    const seqLength = job.seqLength ?? longest;
    if (seqLength > longest) {
      const limit = longest < model.config.positions ? "tokens, its sliding_window" : "positions";
      throw new UsageError(
        `--seq-length ${seqLength} is longer than the model's ${longest} ${limit}; give at most that`,
      );
    }
    const tokens = await openTokens(job.data, { vocabularySize: model.config.vocabularySize });
    try {
      const sampler = new WindowSampler({ tokenCount: tokens.count, seqLength, seed: job.seed, shuffle: job.shuffle });
      const stepsOf = (trainBatch: number): number =>
        job.steps ?? Math.max(1, Math.floor(sampler.windowCount / trainBatch));
      const config = resolveConfig({
        file,
        overrides: job.overrides,
        worldSize: job.ranks,
        model: describeForConfig(job.model, model.config),
        stepsOf,
      });
      checkFolders(config);
      const steps = stepsOf(config.trainBatch);
      const close = async (): Promise<void> => {
        await tokens.close();
        await model[Symbol.asyncDispose]();
      };
      return { config, model, tokens, sampler, seqLength, steps, [Symbol.asyncDispose]: close };
    } catch (error) {
      await tokens.close();
      throw error;
    }
  } catch (error) {
    await model[Symbol.asyncDispose]();
    throw error;
  }
}

/** What of a model a configuration may depend on. */
export function describeForConfig(model: TrainJob["model"], config: ModelConfig): ResolveInput["model"] {
  const { description } = describeModel(createModel(config));
  const parameters = description.units.flatMap((unit) => unit.parameters);
  return {
    name: typeof model === "string" ? model : "the chosen model",
    hiddenSize: config.hidden,
    parameterElements: parameters.reduce((sum, { shape }) => sum + elementsOf(shape), 0),
  };
}
