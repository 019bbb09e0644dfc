/** `shunya config`: what a configuration file comes to, where each value is from, and everything that is wrong with it. */
import { type ConfigReading, readConfigFile } from "../config/json.ts";
import { canonicalPath } from "../config/known-keys.ts";
import { type ConfigResolution, examineConfig, type Override, type ResolveInput } from "../config/resolve.ts";
import type { ResolvedConfig } from "../config/types.ts";
import { Device } from "../device/device.ts";
import { SimulatedBackend } from "../device/simulated.ts";
import { type ConfigProblem, UsageError } from "../errors/errors.ts";
import { describeModel } from "../nn/describe.ts";
import { checkRank } from "../nn/lora.ts";
import { createModel } from "../nn/models/models.ts";
import { tuned } from "../nn/tuning.ts";
import { faultOf } from "../optim/groups.ts";
import { createPlan } from "../plan/plan.ts";
import type { PlannedSizes } from "../plan/sizes.ts";
import { terminalWidth } from "../report/wrap.ts";
import { derivedWords, offloadDetails, offloadPaths } from "./config-details.ts";
import { renderConfigAnswer, renderConfigJson } from "./config-report.ts";
import { describeForConfig, type OpenedModel, openModel, type TrainJob } from "./job.ts";

export interface ConfigQuestion {
  readonly file: string;
  readonly overrides: readonly Override[];
  readonly ranks: number;
  /** A published name or a folder; sizes that the file leaves out are then derived from it. */
  readonly model: TrainJob["model"] | undefined;
  /** What is known of a model that this version does not have. */
  readonly described?: ResolveInput["model"];
}

/** One resolved value under its name in the JSON form. */
export interface ConfigValue {
  readonly name: string;
  /** DeepSpeed's paths of the keys that decide it. */
  readonly paths: readonly string[];
  /** Null: not known, or off. */
  readonly value: unknown;
}

export interface ConfigAnswer {
  readonly question: ConfigQuestion;
  readonly reading: ConfigReading;
  /** The same names in the same order for every file. */
  readonly values: readonly ConfigValue[];
  readonly draft: Partial<ConfigResolution>;
  /** How values come about that no key gives, in words, by their names. */
  readonly derived: Readonly<Record<string, string>>;
  /** Null: not known. */
  readonly offload: object | null;
  /** In the order of the file's lines; those without a line last. */
  readonly problems: readonly ConfigProblem[];
}

interface Field extends Omit<ConfigValue, "value"> {
  /** Paths of keys that the value follows where its own are left out. */
  readonly follows: readonly string[];
  readonly of: (config: Partial<ResolvedConfig>, sizes: PlannedSizes | undefined) => unknown;
}

function field(name: string, paths: string | readonly string[], of: Field["of"], follows: readonly string[] = []) {
  return { name, paths: typeof paths === "string" ? [paths] : paths, of, follows };
}

function size(name: keyof ResolvedConfig["sizes"], key: string, planned: keyof PlannedSizes): Field {
  return field(name, `zero_optimization.${key}`, (config, sizes) => sizes?.[planned].elements ?? config.sizes?.[name]);
}

const precisionPaths = ["bf16.enabled", "fp16.enabled"];

const fields: readonly Field[] = [
  field("stage", "zero_optimization.stage", (c) => c.stage),
  field("offloadOptimizer", "zero_optimization.offload_optimizer.device", (c) => c.offloadOptimizer),
  field("offloadParam", "zero_optimization.offload_param.device", (c) => c.offloadParam),
  field("offloadRatio", "zero_optimization.offload_optimizer.ratio", (c) => c.offloadRatio),
  field(
    "swapFolders",
    ["zero_optimization.offload_optimizer.nvme_path", "zero_optimization.offload_param.nvme_path", "shunya.nvme_paths"],
    (c) => (c.disk && c.disk.folders.length > 0 ? c.disk.folders.join(", ") : undefined),
    ["zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device"],
  ),
  field("delayedUpdateFrom", "shunya.delayed_update", (c) => c.delayedUpdateFrom),
  field("microBatch", "train_micro_batch_size_per_gpu", (c) => c.microBatch),
  field("gradientAccumulation", "gradient_accumulation_steps", (c) => c.gradientAccumulation),
  field("trainBatch", "train_batch_size", (c) => c.trainBatch),
  field("precision", precisionPaths, (c) => c.precision),
  field("lossScale", ["fp16.loss_scale", "fp16.initial_scale_power"], (c) => c.lossScale, precisionPaths),
  size("reduceBucketSize", "reduce_bucket_size", "reduceBucket"),
  size("allgatherBucketSize", "allgather_bucket_size", "allgatherBucket"),
  size("prefetchBucketSize", "stage3_prefetch_bucket_size", "prefetch"),
  size("paramPersistenceThreshold", "stage3_param_persistence_threshold", "persistence"),
  size("maxLiveParameters", "stage3_max_live_parameters", "liveParameters"),
  size("maxReuseDistance", "stage3_max_reuse_distance", "reuseDistance"),
  size("subGroupSize", "sub_group_size", "subGroup"),
  field("gradientClipping", "gradient_clipping", (c) => c.gradientClipping),
  field("gradientAccumulationType", "data_types.grad_accum_dtype", (c) => c.gradientAccumulationType, precisionPaths),
  field(
    "communicationDataType",
    "communication_data_type",
    (c) => c.gradientReduction?.type ?? c.precision,
    precisionPaths,
  ),
  field("optimizer", ["optimizer.type", "optimizer.params.lr"], (c) => c.optimizer),
  field("parameterGroups", "shunya.parameter_groups", (c) => c.parameterGroups),
  field("freeze", "shunya.freeze", (c) => c.freeze),
  field("lora", ["shunya.lora.rank", "shunya.lora.alpha", "shunya.lora.targets", "shunya.lora.dropout"], (c) => c.lora),
  field("scheduler", "scheduler.type", (c) => c.schedule),
  field("overlapComm", "zero_optimization.overlap_comm", (c) => c.overlapComm, ["zero_optimization.stage"]),
  field("activationCheckpointing", "shunya.activation_checkpointing", (c) => c.activationCheckpointing),
];

/** @throws ModelError where the model cannot be opened; what is wrong with the configuration is in the answer */
export async function answerConfig(question: ConfigQuestion, reading: ConfigReading): Promise<ConfigAnswer> {
  await using model = question.model === undefined ? undefined : await openModel(question.model);
  const examined =
    reading.file &&
    examineConfig({
      file: reading.file,
      overrides: question.overrides,
      worldSize: question.ranks,
      model: model ? describeForConfig(question.model!, model.config) : question.described,
    });
  const config = examined?.config;
  const { sizes, problem } = config && model ? planOf(config, model) : {};
  const wrongGroup = examined && model ? groupProblem(examined.draft, model) : undefined;
  const ofModel = [problem, wrongGroup].filter((found) => found !== undefined);
  const problems = inOrder(reading.problems, [...(examined?.problems ?? []), ...ofModel]);
  const draft = examined?.draft ?? {};
  return {
    question,
    reading,
    values: fields.map(({ name, paths, follows, of }) => ({
      name,
      paths,
      value: hasError([...paths, ...follows], problems) ? null : (of(draft, sizes) ?? null),
    })),
    draft,
    derived: derivedWords(draft, model !== undefined),
    offload: hasError(offloadPaths, problems) ? null : offloadDetails(draft),
    problems,
  };
}

/** @returns the exit code: 1 where the file has an error, as the checkers of other formats have it */
export async function runConfig(question: ConfigQuestion, asJson: boolean): Promise<number> {
  const answer = await answerConfig(question, readConfigFile(question.file));
  const columns = process.stdout.columns || terminalWidth;
  process.stdout.write(asJson ? renderConfigJson(answer) : renderConfigAnswer(answer, columns));
  return answer.problems.some((problem) => problem.level === "error") ? 1 : 0;
}

/** Sizes, or why there is no plan: a buffer for parameters that is too small for this model. */
function planOf(config: ConfigResolution, model: OpenedModel): { sizes?: PlannedSizes; problem?: ConfigProblem } {
  using device = new Device({ backend: new SimulatedBackend(1), arenaBytes: 2 ** 52 });
  try {
    if (config.lora) checkRank(createModel(model.config), config.lora);
    const { description } = describeModel(tuned(createModel(model.config), config));
    return { sizes: createPlan({ model: description, config, alignmentBytes: device.alignmentBytes }).sizes };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const [path, ...message] = error.message.split(": ");
    const { written = path!, line, column } = config.places.get(path!) ?? {};
    return { problem: { level: "error", path: written, line, column, message: message.join(": ") } };
  }
}

/** The first group that takes no parameter of this model, or a pattern that matches none. */
function groupProblem(draft: Partial<ConfigResolution>, model: OpenedModel): ConfigProblem | undefined {
  const { description } = describeModel(createModel(model.config));
  const message = faultOf(
    draft.parameterGroups ?? [],
    description.units.flatMap((unit) => unit.parameters),
  );
  if (message === undefined) return undefined;
  const path = "shunya.parameter_groups";
  const { written = path, line, column } = draft.places?.get(path) ?? {};
  return { level: "error", path: written, line, column, message };
}

/** True for an error at one of the keys, at the section around it, or at a parameter of what the key names. */
function hasError(paths: readonly string[], problems: readonly ConfigProblem[]): boolean {
  const errors = problems.filter(({ level }) => level === "error").map(({ path }) => canonicalPath(path));
  return errors.some((error) =>
    paths.some((path) => {
      const parameters = path.endsWith(".type") && error.startsWith(path.replace(/type$/, "params."));
      return parameters || path === error || path.startsWith(`${error}.`);
    }),
  );
}

/** Where a slip is, something was guessed, so what else is wrong with that value (or, for a slip between values, that line) may not be so. */
function inOrder(slips: readonly ConfigProblem[], others: readonly ConfigProblem[]): ConfigProblem[] {
  const certain = others.filter(({ path, line }) =>
    slips.every((slip) => (slip.path === "(syntax)" ? slip.line !== line : slip.path !== path)),
  );
  const at = (place: number | undefined): number => place ?? Number.MAX_SAFE_INTEGER;
  return [...slips, ...certain].sort((a, b) => at(a.line) - at(b.line) || at(a.column) - at(b.column));
}
