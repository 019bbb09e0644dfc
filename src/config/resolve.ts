/** From a parsed file, flags and defaults to the one frozen configuration, and to every problem on the way. */

import { ConfigError, type ConfigProblem } from "../errors/errors.ts";
import { type AutoInput, fillAutos, fillScheduleAutos, settleOtherAutos } from "./auto.ts";
import { type BatchAnswer, solveBatch } from "./batch.ts";
import { type ConfigNode, nodeFromValue, type ParsedConfig } from "./json.ts";
import type { UsedPath } from "./keys.ts";
import { lint } from "./lint.ts";
import { resolveOffload } from "./offload.ts";
import { resolveOptimizer } from "./optimizer.ts";
import { resolvePrecision, resolveReduction } from "./precision.ts";
import { type AutoValue, Settings, usedPaths } from "./reader.ts";
import { resolveReporting } from "./reporting.ts";
import { resolveSchedule } from "./schedule.ts";
import { resolveTuning } from "./tuning.ts";
import type { Place, ResolvedConfig, SizesConfig, ValueSource } from "./types.ts";

/** A value by dotted path, from `--set path=value` or a flag of its own; text is read as JSON where it is JSON. */
export type Override = readonly [path: string, value: unknown];

export interface ResolveInput {
  readonly file?: ParsedConfig | undefined;
  readonly overrides?: readonly Override[] | undefined;
  readonly worldSize: number;
  /** Where the number of ranks comes from, as messages say it. Left out: --ranks. */
  readonly worldSizeFrom?: string | undefined;
  /** Left out: not known yet, so sizes that are "auto" are left to the plan. */
  readonly model?: (AutoInput["model"] & { readonly name: string; readonly parameterElements?: number }) | undefined;
  /** Optimizer steps of the run with this global batch. Left out: not known yet. Its undefined: this run cannot know. */
  readonly stepsOf?: ((trainBatch: number) => number | undefined) | undefined;
}

/** The resolved configuration, what the user should know about it, and where its values come from. */
export interface ConfigResolution extends ResolvedConfig {
  /** Keys without effect, choices made for the user, settings that hurt: in words, sorted by line. */
  readonly warnings: readonly string[];
  /** Every "auto" and what it became. */
  readonly autos: readonly AutoValue[];
  /** Where a given value stands: the path as written, its line and column. */
  readonly places: ReadonlyMap<string, Place>;
}

export interface ConfigExamination {
  /** Undefined where there is an error. */
  readonly config: ConfigResolution | undefined;
  /** To show where there are errors: what could be told all the same. A key that has an error has its default, a batch may be missing. */
  readonly draft: Partial<ConfigResolution>;
  /** Sorted by line; what has no line comes last. */
  readonly problems: readonly ConfigProblem[];
}

/** The micro-batch when neither a file nor a flag says anything about the batch. */
const microBatchWithoutFile = 4;

/** Resolves a configuration to train with, for `worldSize` ranks. Throws ConfigError with all errors at once. */
export function resolveConfig(input: ResolveInput): ConfigResolution {
  // Whoever trains knows all that can be known: what is unknown now will never be filled.
  const { config, problems } = examineConfig({ ...input, stepsOf: input.stepsOf ?? (() => undefined) });
  if (config !== undefined) return config;
  const errors = problems.filter((problem) => problem.level === "error");
  throw new ConfigError(input.file?.fileName ?? "the configuration", errors);
}

/** Everything that can be said of a configuration. Throws ConfigError only for overrides that JSON cannot hold. */
export function examineConfig(input: ResolveInput): ConfigExamination {
  const { file, overrides = [], worldSize } = input;
  const settings = new Settings();
  for (const [path, value] of overrides)
    settings.add(overrideNode(path, value, file?.fileName ?? "the configuration"), { written: path, source: "flag" });
  if (file !== undefined) settings.add(file.root, { written: "", source: "file" });
  settings.finish();
  const answer = worldSizeProblem(worldSize) ?? resolveAll(settings, input);
  if (typeof answer === "string") settings.error("ranks", answer);
  const problems = sorted(settings.problems);
  if (typeof answer === "string") return { config: undefined, draft: {}, problems };
  const { batch, ...draft } = answer;
  if (batch === undefined || problems.some((p) => p.level === "error"))
    return { config: undefined, draft: { ...draft, ...batch }, problems };
  const config = frozen({ ...draft, ...batch, warnings: problems.map(warningText) });
  return { config, draft: config, problems };
}

/** Freezes plain objects and lists all the way down; maps stay what their type says. */
function frozen<T extends object>(value: T): T {
  for (const inner of Object.values(value))
    if (typeof inner === "object" && inner !== null && !(inner instanceof Map) && !Object.isFrozen(inner))
      frozen(inner);
  return Object.freeze(value);
}

function warningText({ path, line, message }: ConfigProblem): string {
  return `${line === undefined ? "" : `line ${line}: `}${path}: ${message}`;
}

function worldSizeProblem(worldSize: number): string | undefined {
  if (Number.isSafeInteger(worldSize) && worldSize >= 1) return undefined;
  return `found ${worldSize}; wanted a positive whole number`;
}

/** All but the warnings, and the batch apart, since a file may have none. */
function resolveAll(settings: Settings, input: ResolveInput) {
  const { file, worldSize, model } = input;
  const batch = resolveBatch(settings, input);
  fillAutos(settings, { model });
  const stage = settings.get("zero_optimization.stage");
  const precision = resolvePrecision(settings);
  const optimizer = resolveOptimizer(settings, file !== undefined);
  const steps = batch === undefined ? undefined : input.stepsOf?.(batch.trainBatch);
  fillScheduleAutos(settings, optimizer.learningRate, input.stepsOf === undefined ? undefined : (steps ?? null));
  settleOtherAutos(settings);
  const config = {
    stage,
    ...resolveOffload(settings, stage),
    ...precision,
    worldSize,
    gradientClipping: settings.get("gradient_clipping"),
    gradientReduction: resolveReduction(settings, stage, worldSize),
    optimizer,
    parameterGroups: settings.get("shunya.parameter_groups") ?? [],
    ...resolveTuning(settings),
    schedule: resolveSchedule(settings, optimizer),
    sizes: resolveSizes(settings),
    overlapComm: settings.get("zero_optimization.overlap_comm") ?? stage === 3,
    activationCheckpointing: settings.get("shunya.activation_checkpointing"),
    reporting: resolveReporting(settings),
    ...originsOf(settings, file !== undefined),
    autos: settings.autos,
  };
  lint({ settings, config: { ...config, ...(batch ?? noBatch) }, model, steps });
  return { ...config, batch };
}

/** Stands in while the rest of a file without a batch is linted. */
const noBatch = { trainBatch: 1, microBatch: 1, gradientAccumulation: 1 };

/** By line, then column; flags and left-out keys last. */
function sorted(problems: readonly ConfigProblem[]): readonly ConfigProblem[] {
  const far = Number.MAX_SAFE_INTEGER;
  const order = [...problems].sort(
    (a, b) => (a.line ?? far) - (b.line ?? far) || (a.column ?? far) - (b.column ?? far),
  );
  return Object.freeze(order);
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

const batchPaths = {
  trainBatch: "train_batch_size",
  microBatch: "train_micro_batch_size_per_gpu",
  gradientAccumulation: "gradient_accumulation_steps",
} as const satisfies Record<string, UsedPath>;

function resolveBatch(settings: Settings, input: ResolveInput) {
  const paths = Object.values(batchPaths);
  if (paths.some((path) => settings.isUnreadable(path))) return undefined;
  const given = {
    trainBatch: settings.get(batchPaths.trainBatch),
    microBatch: settings.get(batchPaths.microBatch),
    gradientAccumulation: settings.get(batchPaths.gradientAccumulation),
  };
  const saysNothing = given.trainBatch === undefined && given.microBatch === undefined;
  const chosen = saysNothing && input.file === undefined ? { ...given, microBatch: microBatchWithoutFile } : given;
  const answer: BatchAnswer = solveBatch(chosen, input.worldSize, input.worldSizeFrom);
  if ("problem" in answer) {
    const auto = paths.find((path) => settings.isAuto(path));
    const path = given.trainBatch === undefined && given.microBatch !== undefined ? paths[1]! : paths[0]!;
    if (saysNothing && auto !== undefined)
      settings.error(
        auto,
        '"auto" needs a micro-batch to be filled from; give --micro-batch, or write train_micro_batch_size_per_gpu',
      );
    else settings.error(path, answer.problem);
    for (const path of paths) settings.fill(path, undefined, "derived", "nothing to derive it from");
    return undefined;
  }
  for (const [name, path] of Object.entries(batchPaths) as [keyof typeof batchPaths, UsedPath][])
    settings.fill(path, answer.batch[name], "derived", "train = micro x accumulation x ranks");
  return answer.batch;
}

/** Sources of all values that are acted on, and the places of those that were given. */
function originsOf(settings: Settings, hasFile: boolean) {
  const places = new Map<string, Place>();
  const sources = new Map<string, ValueSource>();
  for (const path of usedPaths) {
    const place = settings.placeOf(path);
    if (place !== undefined) places.set(path, place);
    sources.set(path, place?.source ?? (derivedWhenLeftOut.has(path) ? "derived" : "default"));
  }
  // Without a file the micro-batch is a default, and what follows from it is derived.
  const micro = batchPaths.microBatch;
  if (!hasFile && !places.has(micro) && !places.has(batchPaths.trainBatch)) sources.set(micro, "default");
  return { sources, places };
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

const derivedWhenLeftOut: ReadonlySet<string> = new Set([
  ...Object.values(sizePaths),
  ...Object.values(batchPaths),
  "zero_optimization.overlap_comm",
  "data_types.grad_accum_dtype",
]);

function resolveSizes(settings: Settings): SizesConfig {
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
