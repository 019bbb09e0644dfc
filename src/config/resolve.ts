/** From a parsed file, flags and defaults to the one frozen configuration, or to one error that lists every problem. */

import { ConfigError } from "../errors/errors.ts";
import { solveBatch } from "./batch.ts";
import { type ConfigNode, nodeFromValue, type ParsedConfig } from "./json.ts";
import type { UsedPath } from "./keys.ts";
import { Settings, usedPaths } from "./reader.ts";
import { resolveSchedule } from "./schedule.ts";
import type { ElementType, OptimizerConfig, Precision, ResolvedConfig, SizesConfig, ValueSource } from "./types.ts";

/** A value by dotted path, from `--set path=value` or a flag of its own; text is read as JSON where it is JSON. */
export type Override = readonly [path: string, value: unknown];

export interface ResolveInput {
  readonly file?: ParsedConfig | undefined;
  readonly overrides?: readonly Override[] | undefined;
  readonly worldSize: number;
}

/** The resolved configuration and what the user should know about it: keys without effect, choices made for them. */
export interface ConfigResolution extends ResolvedConfig {
  readonly warnings: readonly string[];
}

/** The micro-batch when neither a file nor a flag says anything about the batch. */
const microBatchWithoutFile = 4;
/** The learning rate when no optimizer type is given: a common start for GPT-2 sizes. */
const learningRateWithoutType = 3e-4;
/** PyTorch's and DeepSpeed's default for both types. */
const learningRateOfAdam = 1e-3;
/** DeepSpeed's Adam has 0; torch.optim.AdamW, which `torch_adam` asks for, has 0.01. */
const weightDecayOfTorchAdamW = 0.01;

const batchPaths = ["train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"] as const;

/** Resolves a configuration for `worldSize` ranks. Throws ConfigError with all problems at once. */
export function resolveConfig(input: ResolveInput): ConfigResolution {
  const { file, overrides = [], worldSize } = input;
  const name = file?.fileName ?? "the configuration";
  const settings = new Settings();
  for (const [path, value] of overrides) settings.add(overrideNode(path, value, name), "flag", path);
  if (file !== undefined) settings.add(file.root, "file");
  if (!Number.isSafeInteger(worldSize) || worldSize < 1) {
    settings.problems.push({
      path: "ranks",
      level: "error",
      message: `found ${worldSize}; wanted a positive whole number`,
    });
    throw new ConfigError(name, settings.problems);
  }

  const sources = new Map<string, ValueSource>(usedPaths.map((path) => [path, settings.source(path)]));
  const batch = resolveBatch(settings, file !== undefined, worldSize, sources);
  const precision: Precision = settings.get("bf16.enabled") ? "bf16" : "fp32";
  checkCommunicationType(settings, precision);
  const gradientAccumulationType = resolveAccumulationType(settings, precision);
  const optimizer = resolveOptimizer(settings, file !== undefined);
  const schedule = resolveSchedule(settings, optimizer.learningRate);
  const stage = settings.get("zero_optimization.stage");
  const sizes = resolveSizes(settings, sources);
  if (batch === undefined || settings.problems.length > 0) throw new ConfigError(name, settings.problems);

  return Object.freeze({
    stage,
    offloadOptimizer: "none",
    offloadParam: "none",
    precision,
    lossScale: undefined,
    skipsOverflow: precision === "bf16",
    worldSize,
    ...batch,
    gradientClipping: settings.get("gradient_clipping"),
    gradientAccumulationType,
    gradientReduction: { type: precision, operation: "mean" as const, divideBefore: 1 },
    parameterGroups: [],
    optimizer: Object.freeze(optimizer),
    schedule: schedule && Object.freeze(schedule),
    sizes: Object.freeze(sizes),
    overlapComm: settings.get("zero_optimization.overlap_comm") ?? stage === 3,
    activationCheckpointing: settings.get("shunya.activation_checkpointing"),
    reporting: {
      stepsPerPrint: settings.get("steps_per_print"),
      wallClockBreakdown: false,
      memoryBreakdown: false,
      dumpState: false,
      commsLogger: undefined,
      flopsProfiler: undefined,
      csvMonitor: undefined,
      tensorboard: undefined,
    },
    sources,
    warnings: Object.freeze(settings.warnings),
  });
}

/** Splits `path=value`, as given to `--set`; undefined without a path or without "=". */
export function parseOverride(text: string): Override | undefined {
  const at = text.indexOf("=");
  return at < 1 ? undefined : [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}

function overrideNode(path: string, value: unknown, fileName: string): ConfigNode {
  if (typeof value !== "string") return nodeFromValue(value, path, 0, fileName);
  let parsed: unknown = value;
  try {
    parsed = JSON.parse(value);
  } catch {
    // Not JSON: a word such as AdamW, which stands for itself.
  }
  return nodeFromValue(parsed, path, 0, fileName);
}

function resolveBatch(settings: Settings, hasFile: boolean, worldSize: number, sources: Map<string, ValueSource>) {
  if (batchPaths.some((path) => settings.isUnreadable(path))) return undefined;
  const given = {
    trainBatch: settings.get("train_batch_size"),
    microBatch: settings.get("train_micro_batch_size_per_gpu"),
    gradientAccumulation: settings.get("gradient_accumulation_steps"),
  };
  const saysNothing = given.trainBatch === undefined && given.microBatch === undefined;
  const chosen = saysNothing && !hasFile ? { ...given, microBatch: microBatchWithoutFile } : given;
  const answer = solveBatch(chosen, worldSize);
  if ("problem" in answer) {
    const path = given.trainBatch === undefined && given.microBatch !== undefined ? batchPaths[1] : batchPaths[0];
    settings.problem(path, answer.problem);
    return undefined;
  }
  for (const path of batchPaths) if (!settings.has(path)) sources.set(path, "derived");
  if (chosen !== given) sources.set("train_micro_batch_size_per_gpu", "default");
  return answer.batch;
}

function checkCommunicationType(settings: Settings, precision: Precision): void {
  const type = settings.get("communication_data_type");
  if (type === undefined || type === precision) return;
  settings.problem(
    "communication_data_type",
    `found "${type}"; wanted "${precision}" or nothing: gradients travel in the parameters' own type and are added in fp32`,
  );
}

function resolveAccumulationType(settings: Settings, precision: Precision): ElementType {
  const type = settings.get("data_types.grad_accum_dtype");
  if (type === undefined || type === precision) return precision;
  if (type === "fp32") return type;
  const wanted = precision === "fp32" ? '"fp32"' : '"bf16" or "fp32"';
  settings.problem("data_types.grad_accum_dtype", `found "${type}"; wanted ${wanted} when training in ${precision}`);
  return precision;
}

function resolveOptimizer(settings: Settings, hasFile: boolean): OptimizerConfig {
  const type = settings.get("optimizer.type");
  if (type === undefined && hasFile && !settings.isUnreadable("optimizer.type")) {
    settings.warnings.push(
      `optimizer.type is left out: AdamW is used, with lr ${learningRateWithoutType} unless lr is given`,
    );
  }
  // DeepSpeed: type Adam decouples weight decay unless adam_w_mode is false; type AdamW always does.
  const decoupled = type !== "Adam" || settings.get("optimizer.params.adam_w_mode");
  const torchDefault = decoupled && settings.get("optimizer.params.torch_adam") ? weightDecayOfTorchAdamW : 0;
  const [beta1, beta2] = settings.get("optimizer.params.betas");
  return {
    type: decoupled ? "AdamW" : "Adam",
    learningRate:
      settings.get("optimizer.params.lr") ?? (type === undefined ? learningRateWithoutType : learningRateOfAdam),
    beta1,
    beta2,
    epsilon: settings.get("optimizer.params.eps"),
    weightDecay: settings.get("optimizer.params.weight_decay") ?? torchDefault,
    biasCorrection: settings.get("optimizer.params.bias_correction"),
  };
}

const sizePaths = {
  reduceBucketSize: "zero_optimization.reduce_bucket_size",
  allgatherBucketSize: "zero_optimization.allgather_bucket_size",
  prefetchBucketSize: "zero_optimization.stage3_prefetch_bucket_size",
  paramPersistenceThreshold: "zero_optimization.stage3_param_persistence_threshold",
  maxLiveParameters: "zero_optimization.stage3_max_live_parameters",
  maxReuseDistance: "zero_optimization.stage3_max_reuse_distance",
  subGroupSize: "zero_optimization.sub_group_size",
} as const satisfies Record<keyof SizesConfig, UsedPath>;

function resolveSizes(settings: Settings, sources: Map<string, ValueSource>): SizesConfig {
  for (const path of Object.values(sizePaths)) if (!settings.has(path)) sources.set(path, "derived");
  const size = (name: keyof SizesConfig) => settings.get(sizePaths[name]);
  return {
    reduceBucketSize: size("reduceBucketSize"),
    allgatherBucketSize: size("allgatherBucketSize"),
    prefetchBucketSize: size("prefetchBucketSize"),
    paramPersistenceThreshold: size("paramPersistenceThreshold"),
    maxLiveParameters: size("maxLiveParameters"),
    maxReuseDistance: size("maxReuseDistance"),
    subGroupSize: size("subGroupSize"),
  };
}
