/** Configurations that work and hurt: said once, as warnings, with what to do. */

import type { UsedPath } from "./keys.ts";
import type { Settings } from "./reader.ts";
import { rateInsteadOf } from "./schedule.ts";
import type { ResolvedConfig } from "./types.ts";

export interface LintInput {
  readonly settings: Settings;
  readonly config: ResolvedConfig;
  readonly model: { readonly hiddenSize: number; readonly parameterElements?: number | undefined } | undefined;
  /** Optimizer steps of the run; undefined: not known. */
  readonly steps: number | undefined;
}

type Rule = (input: LintInput) => void;

const zero = "zero_optimization";

/** A bucket of so many models holds no two pieces that could overlap. */
const farLarger = 2;

const bucketBeyondModel: Rule = ({ settings, config, model }) => {
  if (model?.parameterElements === undefined || config.stage === 0) return;
  for (const [path, size] of [
    [`${zero}.reduce_bucket_size`, config.sizes.reduceBucketSize],
    [`${zero}.allgather_bucket_size`, config.sizes.allgatherBucketSize],
  ] as const)
    if (size !== undefined && size > farLarger * model.parameterElements)
      settings.warn(
        path,
        `${size} elements, and the whole model has ${model.parameterElements}: nothing is cut, so nothing overlaps; leave it out to have it derived`,
      );
};

const tinyBucket: Rule = ({ settings, config }) => {
  const size = config.sizes.reduceBucketSize;
  if (size !== undefined && size < 1024 && config.stage > 0)
    settings.warn(
      `${zero}.reduce_bucket_size`,
      `a reduction of ${size} element${size === 1 ? "" : "s"} means a collective for every few numbers; leave it out to have it derived`,
    );
};

const oddGather: Rule = ({ settings, config }) => {
  const size = config.sizes.allgatherBucketSize;
  if (size !== undefined && size % 2 === 1)
    settings.warn(
      `${zero}.allgather_bucket_size`,
      `${size} is odd, which is fine here and refused by DeepSpeed; write an even one`,
    );
};

/** So many micro-batches in 16 bits, and small gradients begin to vanish in the sum. */
const manyMicroBatches = 8;

const coarseAccumulation: Rule = ({ settings, config }) => {
  const { gradientAccumulation, gradientAccumulationType: type } = config;
  if (type !== "fp32" && gradientAccumulation >= manyMicroBatches)
    settings.warn(
      "gradient_accumulation_steps",
      `gradients of ${gradientAccumulation} micro-batches are added in ${type}, where small ones vanish; ` +
        'write "data_types": { "grad_accum_dtype": "fp32" }',
    );
};

const unclippedFp16: Rule = ({ settings, config }) => {
  if (config.precision === "fp16" && config.gradientClipping === 0)
    settings.warn("gradient_clipping", "0: no clipping, and fp16 gradients grow before they overflow; write 1.0");
};

const wholeModelPersists: Rule = ({ settings, config, model }) => {
  const threshold = config.sizes.paramPersistenceThreshold;
  if (config.stage < 3 || threshold === undefined) return;
  const largestUsual = model === undefined ? 1e8 : model.hiddenSize ** 2;
  if (threshold >= largestUsual)
    settings.warn(
      `${zero}.stage3_param_persistence_threshold`,
      `tensors up to ${threshold} elements stay whole on every rank: that is nearly all, as at stage 2; leave it out to have it derived`,
    );
};

const oneSubGroup: Rule = ({ settings, config, model }) => {
  const path = `${zero}.offload_optimizer.ratio`;
  const { subGroupSize } = config.sizes;
  if (config.offloadOptimizer === "none" || settings.get(path) === 1) return;
  if (model?.parameterElements === undefined || subGroupSize === undefined) return;
  if (subGroupSize * config.worldSize >= model.parameterElements)
    settings.warn(
      path,
      "it counts sub-groups, and the whole shard is one; lower sub_group_size so that there are several",
    );
};

const stage3Keys = [
  "stage3_prefetch_bucket_size",
  "stage3_param_persistence_threshold",
  "stage3_max_live_parameters",
  "stage3_max_reuse_distance",
  "sub_group_size",
].map((name) => `${zero}.${name}` as UsedPath);

const stage3KeysBelow: Rule = ({ settings, config }) => {
  const given = stage3Keys.map((path) => settings.placeOf(path)).filter((place) => place?.source === "file");
  if (config.stage === 3 || given.length === 0) return;
  const names = given.map((place) => place!.written);
  settings.warn(
    names[0]!,
    `for stage 3, and the stage is ${config.stage}: without effect${others(names)}; use stage 3, or remove`,
  );
};

const others = ([, ...rest]: readonly string[]): string => (rest.length === 0 ? "" : `, nor ${rest.join(", ")}`);

const warmupBeyondRun: Rule = ({ settings, config, steps }) => {
  const { schedule } = config;
  if (schedule === undefined || !("warmupSteps" in schedule)) return;
  if ("totalSteps" in schedule && !settings.has("scheduler.params.total_num_steps")) return; // an error of its own
  const written = "totalSteps" in schedule ? schedule.totalSteps : Number.POSITIVE_INFINITY;
  const run = Math.min(written, steps ?? Number.POSITIVE_INFINITY);
  if (schedule.warmupSteps < run) return;
  settings.warn(
    "scheduler.params.warmup_num_steps",
    `a warm-up of ${schedule.warmupSteps} steps, and the run has ${run}: the learning rate never reaches its height; shorten it`,
  );
};

/** Hugging Face's integration refuses the mismatch; DeepSpeed goes by the schedule and says nothing. */
const rateWithoutEffect: Rule = ({ settings, config }) => {
  const path = "optimizer.params.lr";
  const acting = rateInsteadOf(config.schedule);
  const place = settings.placeOf(path);
  if (acting === undefined || place === undefined || acting.value === config.optimizer.learningRate) return;
  if (missesRates(settings)) return;
  const { learningRate } = config.optimizer;
  const told = `${learningRate} has no effect: ${config.schedule!.type} goes by ${acting.key}, which is ${acting.value}`;
  if (place.source === "flag")
    settings.error(path, `${told}; give --set scheduler.params.${acting.key}=${learningRate} too, or drop the flag`);
  else settings.warn(path, `${told}; set scheduler.params.${acting.key}, or remove lr`);
};

/** DeepSpeed's SGD is PyTorch's, which had no default for long. */
const rateOfSgdLeftOut: Rule = ({ settings, config }) => {
  const path = "optimizer.params.lr";
  const isGiven = settings.placeOf(path) !== undefined;
  if (config.optimizer.type === "SGD" && !isGiven && rateInsteadOf(config.schedule) === undefined)
    settings.warn(path, `left out: ${config.optimizer.learningRate} is used, as in PyTorch`);
};

const groupRateWithoutEffect: Rule = ({ settings, config }) => {
  const acting = rateInsteadOf(config.schedule);
  if (acting === undefined || missesRates(settings)) return;
  const groups = config.parameterGroups.flatMap(({ learningRate }, i) =>
    learningRate === undefined || learningRate === acting.value ? [] : [`group ${i + 1}'s lr ${learningRate}`],
  );
  if (groups.length === 0) return;
  const { type } = config.schedule!;
  const way = type.startsWith("Warmup") ? "use WarmupLR without warmup_max_lr, or WarmupCosineLR" : "use WarmupLR";
  settings.warn(
    "shunya.parameter_groups",
    `${listed(groups)}: no effect, since ${type} gives every parameter the same rate, by ${acting.key} ${acting.value}; ${way}, or remove lr`,
  );
};

/** True where the schedule's own rates are an error already. */
const missesRates = (settings: Settings): boolean =>
  settings.get("scheduler.type") === "OneCycle" &&
  !(settings.has("scheduler.params.cycle_min_lr") && settings.has("scheduler.params.cycle_max_lr"));

/** The first few of a list that may be long. */
const listed = (items: readonly string[]): string =>
  items.length <= 4 ? items.join(", ") : `${items.slice(0, 3).join(", ")} and ${items.length - 3} more`;

const warmupUpsideDown: Rule = ({ settings, config: { schedule, optimizer } }) => {
  if (schedule?.type !== "WarmupLR" && schedule?.type !== "WarmupDecayLR") return;
  const height = schedule.maxLearningRate ?? optimizer.learningRate;
  if (schedule.minLearningRate > height)
    settings.warn(
      "scheduler.params.warmup_min_lr",
      `${schedule.minLearningRate}, and the warm-up ends at ${height}: the rate falls; write less than that`,
    );
};

const cycleUpsideDown: Rule = ({ settings, config: { schedule } }) => {
  if (schedule?.type !== "OneCycle" || missesRates(settings)) return;
  const { minLearningRate: low, maxLearningRate: high } = schedule;
  if (high < low)
    settings.warn(
      "scheduler.params.cycle_max_lr",
      `${high}, and cycle_min_lr is ${low}: the rate falls first and then rises; exchange the two`,
    );
};

const decayWithoutSteps: Rule = ({ settings, config: { schedule } }) => {
  if (schedule?.type !== "OneCycle" || schedule.decayStepSize > 0) return;
  const decays = (["decay_lr_rate", "decay_mom_rate"] as const).filter(
    (name) => (settings.get(`scheduler.params.${name}`) ?? 0) !== 0,
  );
  if (decays.length > 0)
    settings.warn(
      `scheduler.params.${decays[0]!}`,
      `no effect${decays.length > 1 ? `, nor ${decays[1]}` : ""}: decay_step_size is 0, so nothing decays after the cycle; write decay_step_size`,
    );
};

const scatterOff: Rule = ({ settings, config }) => {
  if (config.stage > 0 && !settings.get(`${zero}.reduce_scatter`))
    settings.warn(
      `${zero}.reduce_scatter`,
      "gradients go to their owner only, with false too: the same sums with half the traffic",
    );
};

const rules: readonly Rule[] = [
  bucketBeyondModel,
  tinyBucket,
  oddGather,
  coarseAccumulation,
  unclippedFp16,
  wholeModelPersists,
  oneSubGroup,
  stage3KeysBelow,
  warmupBeyondRun,
  rateWithoutEffect,
  rateOfSgdLeftOut,
  warmupUpsideDown,
  groupRateWithoutEffect,
  cycleUpsideDown,
  decayWithoutSteps,
  scatterOff,
];

export function lint(input: LintInput): void {
  for (const rule of rules) rule(input);
}
