/** A training job as plain data: what the command line said, checked, and in a form that every rank reads alike. */
import { type ModelFolder, openModelFolder } from "../checkpoint/huggingface.ts";
import { type ParsedConfig, parseConfigFile, parseConfigObject } from "../config/json.ts";
import { type ConfigResolution, type Override, type ResolveInput, resolveConfig } from "../config/resolve.ts";
import { WindowSampler } from "../data/sampler.ts";
import { openTokens, type TokenSource } from "../data/tokens.ts";
import { UsageError } from "../errors/errors.ts";
import { checkFolders } from "../launch/offload.ts";
import { describeModel } from "../nn/describe.ts";
import { Gpt2 } from "../nn/models/gpt2.ts";
import { type Gpt2Config, gpt2Configs } from "../nn/models/gpt2-config.ts";
import { elementsOf } from "../tensor/tensor.ts";
import { findTokenizer } from "../tokenizer/open.ts";
import { byteTokenizer, openTokenizer, type Tokenizer } from "../tokenizer/tokenizer.ts";

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
  readonly model: string | Gpt2Config;
  readonly data: readonly string[];
  /** A tokenizer.json or a folder with one. Undefined: the model folder's, or else bytes. */
  readonly tokenizer?: string | undefined;
  readonly ranks: number;
  /** Undefined: one epoch. */
  readonly steps: number | undefined;
  /** Undefined: the model's positions. */
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
  /** A checkpoint to go on from, or a folder of them. */
  readonly resume: string | undefined;
  /** A file for what every queue did and when. */
  readonly trace: string | undefined;
}

/** A job with everything it names opened and checked. */
export interface OpenedJob extends AsyncDisposable {
  readonly config: ConfigResolution;
  readonly model: OpenedModel;
  readonly tokenizer: Tokenizer;
  readonly tokens: TokenSource;
  readonly sampler: WindowSampler;
  readonly seqLength: number;
  readonly steps: number;
}

export interface OpenedModel extends AsyncDisposable {
  readonly config: Gpt2Config;
  readonly weights: ModelFolder["weights"];
}

/**
 * A published name, a folder with config.json and perhaps weights, or a shape. Of a published name only the shape is known, and
 * training begins from scratch: its vocabulary is the tokenizer's then.
 */
export async function openModel(model: TrainJob["model"], tokenizer: Tokenizer = byteTokenizer): Promise<OpenedModel> {
  if (isFolder(model)) return openModelFolder(model);
  const named = typeof model === "string" ? gpt2Configs[model as keyof typeof gpt2Configs] : model;
  const hasOwn = typeof model === "string" && tokenizer !== byteTokenizer;
  const config = hasOwn ? { ...named, vocabularySize: tokenizer.vocabularySize } : named;
  return { config, weights: undefined, [Symbol.asyncDispose]: async () => {} };
}

/** What text is encoded with: what was named, or the model folder's own, or bytes. @throws ModelError */
export async function openJobTokenizer({
  tokenizer,
  model,
}: Pick<TrainRequest, "tokenizer" | "model">): Promise<Tokenizer> {
  if (tokenizer !== undefined) return openTokenizer(tokenizer);
  const own = isFolder(model) ? await findTokenizer(model) : undefined;
  return own === undefined ? byteTokenizer : openTokenizer(own);
}

function isFolder(model: TrainRequest["model"]): model is string {
  return typeof model === "string" && !Object.hasOwn(gpt2Configs, model);
}

/** The file or object of a job as the configuration reader takes it. */
export function parseJobConfig(config: TrainJob["config"]): ParsedConfig | undefined {
  if (config === undefined) return undefined;
  return typeof config === "string" ? parseConfigFile(config) : parseConfigObject(config);
}

/** @throws ConfigError, ModelError, DataError, UsageError */
export async function openJob(job: TrainJob): Promise<OpenedJob> {
  const file = parseJobConfig(job.config);
  const tokenizer = await openJobTokenizer(job);
  const model = await openModel(job.model, tokenizer);
  try {
    const seqLength = job.seqLength ?? model.config.positions;
    if (seqLength > model.config.positions)
      throw new UsageError(
        `--seq-length ${seqLength} is longer than the model's ${model.config.positions} positions; give at most that`,
      );
    const tokens = await openTokens(job.data, { vocabularySize: model.config.vocabularySize, tokenizer });
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
      return { config, model, tokenizer, tokens, sampler, seqLength, steps, [Symbol.asyncDispose]: close };
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
export function describeForConfig(model: TrainJob["model"], config: Gpt2Config): ResolveInput["model"] {
  const { description } = describeModel(new Gpt2(config));
  const parameters = description.units.flatMap((unit) => unit.parameters);
  return {
    name: typeof model === "string" ? model : "the chosen model",
    hiddenSize: config.hidden,
    parameterElements: parameters.reduce((sum, { shape }) => sum + elementsOf(shape), 0),
  };
}
