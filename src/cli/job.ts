/** A training job as plain data: what the command line said, checked, and in a form that every rank reads alike. */
import { openAdapterFolder, withAdapter } from "../checkpoint/adapter-folder.ts";
import { readGenerationConfig } from "../checkpoint/generation-json.ts";
import { type ModelFolder, openModelFolder } from "../checkpoint/huggingface.ts";
import type { ModelFormat } from "../checkpoint/weight-names.ts";
import { type ParsedConfig, parseConfigFile, parseConfigObject } from "../config/json.ts";
import { type ConfigResolution, type Override, type ResolveInput, resolveConfig } from "../config/resolve.ts";
import type { LoraConfig } from "../config/types.ts";
import { ConversationRows } from "../data/conversation-rows.ts";
import { type ConversationSummary, summarise } from "../data/conversation-summary.ts";
import { MixedSampler } from "../data/mixed-sampler.ts";
import { type PreparedData, type PreparedSource, type PrepareOptions, prepareData } from "../data/prepare.ts";
import { placesOf, trainingWords } from "../data/row-places.ts";
import { type Rows, WindowRows } from "../data/rows.ts";
import { RowSampler, type Sampler, type SamplerOptions } from "../data/sampler.ts";
import { splitOff } from "../data/split.ts";
import { defaultCacheFolder } from "../data/token-cache.ts";
import { openRanges } from "../data/tokens.ts";
import { DataError, UsageError } from "../errors/errors.ts";
import { checkFolders } from "../launch/offload.ts";
import { describeModel } from "../nn/describe.ts";
import { checkRank } from "../nn/lora.ts";
import { createModel, type ModelConfig } from "../nn/models/models.ts";
import { elementsOf } from "../tensor/tensor.ts";
import { findTokenizer } from "../tokenizer/open.ts";
import { byteTokenizer, openTokenizer, type Tokenizer } from "../tokenizer/tokenizer.ts";
import { meaningOf, shownModel } from "./model-flags.ts";
import { type ValidationData, validationData } from "./validation.ts";

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
  /** A published name, a folder (names of models on a hub have become one), or a shape that was chosen. */
  readonly model: string | ModelConfig;
  /** A folder with adapters of that model, which are trained further. */
  readonly adapter?: string | undefined;
  /** What the model is called in an adapter's settings, where `model` does not say it. */
  readonly base?: string | undefined;
  readonly data: readonly string[];
  /** How documents become tokens, where that is not left to its defaults. */
  readonly reading?: ReadingOptions | undefined;
  /** The data as the command found them: ranks open them without looking at them again. */
  readonly prepared?: JobData | undefined;
  /** The loss on the validation data after every so many steps, and after the last. Undefined: after the last. */
  readonly evalEvery?: number | undefined;
  /** Prompts that the model in training continues, as often. */
  readonly samplePrompts?: readonly string[] | undefined;
  /** A tokenizer.json or a folder with one. Undefined: the model folder's, or else bytes. */
  readonly tokenizer?: string | undefined;
  /** The text of a generation_config.json that belongs to the model. Undefined: the model folder's, if it has one. */
  readonly generation?: string | undefined;
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
  /** Of the model there. Undefined: fp32, in files of the usual size. */
  readonly outputFormat?: Partial<ModelFormat> | undefined;
  /** A checkpoint after every so many steps. Undefined: none. */
  readonly saveEvery: number | undefined;
  /** How many checkpoints stay. Undefined: all. */
  readonly keep: number | undefined;
  /** A checkpoint to go on from, or a folder of them. */
  readonly resume: string | undefined;
  /** A file for what every queue did and when. */
  readonly trace: string | undefined;
}

export interface ReadingOptions {
  /** Of JSONL and Parquet. Undefined: "text". */
  readonly textField?: string | undefined;
  /** For data that were made tokens. Undefined: the user's cache folder. */
  readonly cacheFolder?: string | undefined;
  /** A share of the data, or other data. Undefined: none. */
  readonly validation?: { readonly share: number } | { readonly data: readonly string[] } | undefined;
}

export interface JobData extends PreparedData {
  /** Of instruction data: those that are trained on. */
  readonly summary?: ConversationSummary;
}

/** A job with everything it names opened and checked. */
export interface OpenedJob extends AsyncDisposable {
  readonly config: ConfigResolution;
  readonly model: OpenedModel;
  readonly prepared: JobData;
  readonly tokenizer: Tokenizer;
  /** The text of the model's generation_config.json; undefined where it has none. */
  readonly generation: string | undefined;
  readonly rows: Rows;
  readonly sampler: Sampler;
  readonly validation: ValidationData | undefined;
  readonly seqLength: number;
  readonly steps: number;
}

export interface OpenedModel extends AsyncDisposable {
  readonly config: ModelConfig;
  readonly weights: ModelFolder["weights"];
  /** Of the adapters that were named; their weights are among the others. */
  readonly lora?: LoraConfig;
  /** What the adapters call the model that they belong to; null where they do not say it. */
  readonly base?: string | null;
}

/**
 * A published name, a folder with config.json and perhaps weights, or a shape. Of a published name only the shape is known, and
 * training begins from scratch: its vocabulary is the tokenizer's then.
 */
export async function openModel(model: TrainJob["model"], tokenizer: Tokenizer = byteTokenizer): Promise<OpenedModel> {
  const meaning = typeof model === "string" ? meaningOf(model) : ({ kind: "published", config: model } as const);
  if (meaning.kind !== "published") return openModelFolder(model as string);
  const hasOwn = typeof model === "string" && tokenizer !== byteTokenizer;
  const config = hasOwn ? { ...meaning.config, vocabularySize: tokenizer.vocabularySize } : meaning.config;
  return { config, weights: undefined, [Symbol.asyncDispose]: async () => {} };
}

/** The same with the adapters in a folder, which only weights can have. @throws ModelError */
export async function openAdapted(
  model: TrainJob["model"],
  adapter: string | undefined,
  tokenizer?: Tokenizer,
): Promise<OpenedModel> {
  const opened = await openModel(model, tokenizer);
  if (adapter === undefined) return opened;
  try {
    const { config, weights } = opened;
    const { lora, base, ...folder } = await openAdapterFolder(adapter, config);
    const close = async (): Promise<void> => {
      await folder[Symbol.asyncDispose]();
      await opened[Symbol.asyncDispose]();
    };
    return {
      config,
      weights: weights && withAdapter(weights, folder.weights),
      lora,
      base,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await opened[Symbol.asyncDispose]();
    throw error;
  }
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
  return typeof model === "string" && meaningOf(model).kind !== "published";
}

/** The file or object of a job as the configuration reader takes it. */
export function parseJobConfig(config: TrainJob["config"]): ParsedConfig | undefined {
  if (config === undefined) return undefined;
  return typeof config === "string" ? parseConfigFile(config) : parseConfigObject(config);
}

/** Where workers find `openTokenizer`. */
const tokenizerModule = new URL(
  import.meta.url.endsWith(".ts") ? "../tokenizer/tokenizer.ts" : "../tokenizer/tokenizer.js",
  import.meta.url,
).href;

/** Checks all data once, makes tokens of what is none, and holds out what is for validation. @throws DataError, UsageError */
export async function prepareJobData(
  { data, reading }: Pick<TrainJob, "data" | "reading">,
  { tokenizer, vocabularySize, seqLength }: Pick<PrepareOptions, "tokenizer" | "vocabularySize" | "seqLength">,
  onProgress?: PrepareOptions["onProgress"],
): Promise<JobData> {
  const options: PrepareOptions = {
    tokenizer,
    vocabularySize,
    ...(tokenizer !== byteTokenizer && {
      tokenizerFiles: [tokenizer.name],
      tokenizerModule: { module: tokenizerModule, argument: tokenizer.name },
    }),
    textField: reading?.textField ?? "text",
    ...(seqLength !== undefined && { seqLength }),
    cacheFolder: reading?.cacheFolder ?? defaultCacheFolder(),
    ...(onProgress && { onProgress }),
  };
  const prepared = await withValidation(await prepareData(data, options), reading?.validation, options);
  if (prepared.kind === "text") return prepared;
  const samples = prepared.sources.flatMap((source) => source.samples ?? []);
  return { ...prepared, summary: await summarise(samples, seqLength!) };
}

async function withValidation(
  prepared: PreparedData,
  validation: ReadingOptions["validation"],
  options: PrepareOptions,
): Promise<PreparedData> {
  if (validation === undefined) return prepared;
  if ("share" in validation) {
    const { training, validation: heldOut } = splitOff(prepared.sources, validation.share);
    return { ...prepared, sources: training, validation: heldOut };
  }
  const other = await prepareData(validation.data, options);
  if (other.kind !== prepared.kind) {
    const [instructions, text] =
      prepared.kind === "instructions" ? ["--data", "--validation-data"] : ["--validation-data", "--data"];
    throw new DataError(
      `${instructions} holds conversations or completions, and ${text} holds text: their losses are not of one kind; give one kind`,
    );
  }
  return {
    ...prepared,
    validation: other.sources,
    inputs: [...prepared.inputs, ...other.inputs],
    notices: [...prepared.notices, ...other.notices],
  };
}

/** @throws ConfigError, ModelError, DataError, UsageError */
export async function openJob(job: TrainJob, onProgress?: PrepareOptions["onProgress"]): Promise<OpenedJob> {
  const file = parseJobConfig(job.config);
  const opened: AsyncDisposable[] = [];
  const close = async (): Promise<void> => {
    for (const resource of opened.reverse()) await resource[Symbol.asyncDispose]();
  };
  try {
    const tokenizer = await openJobTokenizer(job);
    const model = await openAdapted(job.model, job.adapter, tokenizer);
    if (job.adapter !== undefined && !model.weights && job.resume === undefined)
      throw new UsageError(`--adapter ${job.adapter} belongs to a model's weights; name their folder with --model DIR`);
    opened.push(model);
    const generation = job.generation ?? (isFolder(job.model) ? await readGenerationConfig(job.model) : undefined);
    const { vocabularySize, positions } = model.config;
    const seqLength = job.seqLength ?? positions;
    if (seqLength > positions)
      throw new UsageError(
        `--seq-length ${seqLength} is longer than the model's ${positions} positions; give at most that`,
      );
    const prepared = job.prepared ?? (await prepareJobData(job, { tokenizer, vocabularySize, seqLength }, onProgress));
    const openSources = async (sources: readonly PreparedSource[]): Promise<Rows> => {
      const rows = await openRows(prepared.kind, sources, { vocabularySize, seqLength });
      opened.push(rows);
      return rows;
    };
    const rows = await openSources(prepared.sources);
    const sampler = samplerFor(prepared, rows, job);
    const heldOut = prepared.validation;
    const validation = heldOut && validationData(await openSources(heldOut), heldOut);
    const stepsOf = (trainBatch: number): number => job.steps ?? Math.max(1, Math.floor(sampler.rowCount / trainBatch));
    const resolved = resolveConfig({
      file,
      overrides: job.overrides,
      worldSize: job.ranks,
      model: describeForConfig(job.model, model.config),
      stepsOf,
    });
    if (resolved.lora && !model.lora) checkRank(createModel(model.config), resolved.lora);
    const config = model.lora ? withLora(resolved, model.lora, `--adapter ${job.adapter}`) : resolved;
    checkFolders(config);
    const steps = stepsOf(config.trainBatch);
    return {
      config,
      model,
      tokenizer,
      generation,
      prepared,
      rows,
      sampler,
      validation,
      seqLength,
      steps,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** What adapters call the model that they belong to. */
export const baseOf = ({ model, base }: Pick<TrainJob, "model" | "base">): string | null =>
  typeof model === "string" ? shownModel(model).replace(/@[0-9a-f]{7}$/, "") : (base ?? null);

/** What an adapter is, its own settings say; the configuration may say the same, and what is dropped. @throws UsageError */
function withLora(config: ConfigResolution, lora: LoraConfig, where: string): ConfigResolution {
  if (config.freeze.length > 0)
    throw new UsageError(`${where} freezes everything but its adapters; leave --freeze and shunya.freeze out`);
  const { lora: asked } = config;
  if (!asked) return { ...config, lora };
  for (const key of ["rank", "alpha", "rankStabilized"] as const)
    if (asked[key] !== lora[key])
      throw new UsageError(
        `${where} has ${key} ${lora[key]}, and the configuration says ${asked[key]}; leave shunya.lora and --lora-... out`,
      );
  if (asked.targets && [...asked.targets].sort().join() !== [...(lora.targets ?? [])].sort().join())
    throw new UsageError(
      `${where} is of the layers ${lora.targets?.join(", ")}, and the configuration says ${asked.targets.join(", ")}; leave targets out`,
    );
  return { ...config, lora: { ...lora, dropout: asked.dropout } };
}

async function openRows(
  kind: PreparedData["kind"],
  sources: readonly PreparedSource[],
  { vocabularySize, seqLength }: { readonly vocabularySize: number; readonly seqLength: number },
): Promise<Rows> {
  if (kind === "text") {
    const ranges = sources.flatMap((source) => source.ranges);
    return new WindowRows(await openRanges(ranges, { vocabularySize }), seqLength);
  }
  const samples = sources.flatMap((source) => source.samples ?? []);
  const tokens = sources.reduce((sum, source) => sum + source.tokens, 0);
  return ConversationRows.open(samples, tokens, { vocabularySize, seqLength });
}

function samplerFor({ sources }: PreparedData, rows: Rows, options: SamplerOptions): Sampler {
  const weighed = sources.flatMap(({ weight, ...source }) =>
    weight === undefined
      ? []
      : [{ name: source.name, weight, rows: placesOf([source], rows.seqLength, trainingWords(source.name)) }],
  );
  if (weighed.length > 0) return new MixedSampler({ sources: weighed, ...options });
  return new RowSampler(placesOf(sources, rows.seqLength, trainingWords()), options);
}

/** What of a model a configuration may depend on. */
export function describeForConfig(model: TrainJob["model"], config: ModelConfig): ResolveInput["model"] {
  const { description } = describeModel(createModel(config));
  const parameters = description.units.flatMap((unit) => unit.parameters);
  return {
    name: typeof model === "string" ? shownModel(model) : "the chosen model",
    hiddenSize: config.hidden,
    parameterElements: parameters.reduce((sum, { shape }) => sum + elementsOf(shape), 0),
  };
}
