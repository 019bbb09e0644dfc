/** Configurations that work and hurt: said once, as warnings, with what to do. */

import type { UsedPath } from "./keys.ts";
import type { Settings } from "./reader.ts";
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
      `${size} element(s) in one reduction means a collective for every few numbers; leave it out to have it derived`,
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
  const written = "totalSteps" in schedule ? schedule.totalSteps : Number.POSITIVE_INFINITY;
  const run = Math.min(written, steps ?? Number.POSITIVE_INFINITY);
  if (schedule.warmupSteps < run) return;
  settings.warn(
    "scheduler.params.warmup_num_steps",
    `a warm-up of ${schedule.warmupSteps} steps, and the run has ${run}: the learning rate never reaches its height; shorten it`,
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
  scatterOff,
];

export function lint(input: LintInput): void {
  for (const rule of rules) rule(input);
}
