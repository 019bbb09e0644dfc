/** A training job as plain data: what the command line said, checked, and in a form that every rank reads alike. */
import { type ModelFolder, openModelFolder } from "../checkpoint/huggingface.ts";
import { parseConfigFile } from "../config/json.ts";
import { type ConfigResolution, type Override, resolveConfig } from "../config/resolve.ts";
import { WindowSampler } from "../data/sampler.ts";
import { openTokens, type TokenSource } from "../data/tokens.ts";
import { UsageError } from "../errors/errors.ts";
import { type Gpt2Config, gpt2Configs } from "../nn/models/gpt2-config.ts";

export interface TrainJob {
  readonly config: string | undefined;
  readonly overrides: readonly Override[];
  readonly model: string;
  readonly data: readonly string[];
  readonly ranks: number;
  /** Undefined: one epoch. */
  readonly steps: number | undefined;
  /** Undefined: the model's positions. */
  readonly seqLength: number | undefined;
  readonly seed: number;
  readonly shuffle: boolean;
  readonly deviceMemoryBytes: number | undefined;
  readonly threads: number;
  readonly output: string | undefined;
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
  readonly config: Gpt2Config;
  readonly weights: ModelFolder["weights"];
}

/** A published name, or a folder with config.json and perhaps weights. */
export async function openModel(nameOrFolder: string): Promise<OpenedModel> {
  if (nameOrFolder in gpt2Configs) {
    const config = gpt2Configs[nameOrFolder as keyof typeof gpt2Configs];
    return { config, weights: undefined, [Symbol.asyncDispose]: async () => {} };
  }
  return openModelFolder(nameOrFolder);
}

/** @throws ConfigError, ModelError, DataError, UsageError */
export async function openJob(job: TrainJob): Promise<OpenedJob> {
  const file = job.config === undefined ? undefined : parseConfigFile(job.config);
  const config = resolveConfig({ file, overrides: job.overrides, worldSize: job.ranks });
  const model = await openModel(job.model);
  try {
    const seqLength = job.seqLength ?? model.config.positions;
    if (seqLength > model.config.positions)
      throw new UsageError(
        `--seq-length ${seqLength} is longer than the model's ${model.config.positions} positions; give at most that`,
      );
    const tokens = await openTokens(job.data, { vocabularySize: model.config.vocabularySize });
    try {
      const sampler = new WindowSampler({ tokenCount: tokens.count, seqLength, seed: job.seed, shuffle: job.shuffle });
      const steps = job.steps ?? Math.max(1, Math.floor(sampler.windowCount / config.trainBatch));
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
