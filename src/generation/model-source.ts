/** Where a model to write with comes from: a model folder, or a checkpoint of its training. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { openAdapterFolder, withAdapter } from "../checkpoint/adapter-folder.ts";
import {
  type GenerationSettings,
  generationConfigName,
  parseGenerationConfig,
  readGenerationConfig,
} from "../checkpoint/generation-json.ts";
import { type ModelWeights, openModelFolder } from "../checkpoint/huggingface.ts";
import { holdsCheckpoint, openSavedModel, savedGeneration } from "../checkpoint/saved-model.ts";
import type { ProcessGroup } from "../comm/group.ts";
import type { LoraConfig } from "../config/types.ts";
import { ModelError, UsageError } from "../errors/errors.ts";
import type { Logger } from "../log/logger.ts";
import type { ModelConfig } from "../nn/models/models.ts";
import { findTokenizer } from "../tokenizer/open.ts";

export interface ModelSource extends AsyncDisposable {
  /** For messages: the folder that was taken. */
  readonly folder: string;
  readonly config: ModelConfig;
  /** Of the adapters among the weights. */
  readonly lora: LoraConfig | undefined;
  readonly weights: ModelWeights;
  /** The model's generation_config.json; undefined where it has none. */
  readonly generation: GenerationSettings | undefined;
  /** The model's own tokenizer.json; undefined: it has none, so bytes are tokens. @throws ModelError where it is gone */
  tokenizer(): Promise<string | undefined>;
}

export interface SourceOptions {
  /** A folder with adapters of the model. */
  readonly adapter: string | undefined;
  /** The ranks that open it together. */
  readonly group: ProcessGroup;
  /** Told which checkpoint is taken, and of damaged ones that are passed over. */
  readonly logger: Logger;
}

/** Every rank calls it with the same path. @throws ModelError, CheckpointError, UsageError */
export async function openModelSource(path: string, options: SourceOptions): Promise<ModelSource> {
  const opened = (await holdsCheckpoint(path)) ? await openCheckpoint(path, options) : await openFolder(path);
  if (options.adapter === undefined) return opened;
  try {
    return await adapted(opened, options.adapter);
  } catch (error) {
    await opened[Symbol.asyncDispose]();
    throw error;
  }
}

async function openFolder(folder: string): Promise<ModelSource> {
  const generation = settingsOf(await readGenerationConfig(folder), join(folder, generationConfigName));
  const { config, weights, close } = await openModelFolder(folder).catch(async (error: Error) => {
    const checkpoints = join(folder, "checkpoints"); // of a run that was killed before it wrote its model
    if (!(await holdsCheckpoint(checkpoints))) throw error;
    throw new ModelError(`${error.message}; ${checkpoints} can be given, too`, { cause: error });
  });
  if (!weights) {
    await close();
    throw new ModelError(`${folder} has no weights (no model.safetensors); give a folder that training wrote`);
  }
  const tokenizer = () => findTokenizer(folder);
  return { folder, config, lora: undefined, weights, generation, tokenizer, [Symbol.asyncDispose]: close };
}

async function openCheckpoint(path: string, { group, logger }: SourceOptions): Promise<ModelSource> {
  const onDamaged = (text: string): void => logger.warn(`an older checkpoint is taken, since ${text}`);
  const { manifest, ...saved } = await openSavedModel(path, { group, onDamaged, checksAsRead: true });
  const generation = settingsOf(savedGeneration(manifest), `${saved.folder}: the ${generationConfigName} in it`);
  logger.info(`the model is that of step ${manifest.step}, in ${saved.folder}`);
  const tokenizer = async (): Promise<string | undefined> => {
    const { tokenizer: file } = manifest.run;
    if (typeof file !== "string" || existsSync(file)) return file as string | undefined;
    throw new ModelError(
      `the tokenizer of ${saved.folder}, ${file}, is not there any more: give its tokenizer.json with --tokenizer (in code: tokenizer)`,
    );
  };
  return { ...saved, generation, tokenizer };
}

const settingsOf = (text: string | undefined, path: string): GenerationSettings | undefined =>
  text === undefined ? undefined : parseGenerationConfig(text, path);

async function adapted(model: ModelSource, path: string): Promise<ModelSource> {
  if (model.lora)
    throw new UsageError(`${model.folder} has adapters of its own, and ${path} cannot be added; leave the adapter out`);
  const adapter = await openAdapterFolder(path, model.config);
  const close = async (): Promise<void> => {
    await adapter[Symbol.asyncDispose]();
    await model[Symbol.asyncDispose]();
  };
  const weights = withAdapter(model.weights, adapter.weights);
  return { ...model, lora: adapter.lora, weights, [Symbol.asyncDispose]: close };
}
