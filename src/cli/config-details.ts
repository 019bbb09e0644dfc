/** What `shunya config --json` says beside the plain values: how values that are left out come about, and offload in full. */
import type { ConfigResolution } from "../config/resolve.ts";

/** How each value comes about whose key is left out, by its name in the document. */
const derivations: Readonly<
  Record<string, { readonly path: string; readonly words: string; readonly byModel?: true }>
> = {
  microBatch: { path: "train_micro_batch_size_per_gpu", words: "train batch / accumulation / ranks" },
  gradientAccumulation: { path: "gradient_accumulation_steps", words: "train batch / micro-batch / ranks" },
  trainBatch: { path: "train_batch_size", words: "micro-batch x accumulation x ranks" },
  gradientAccumulationType: { path: "data_types.grad_accum_dtype", words: "the parameters' own type" },
  overlapComm: { path: "zero_optimization.overlap_comm", words: "true at stage 3, else false" },
  ...bySize({
    reduceBucketSize: ["reduce_bucket_size", "the largest unit of the model"],
    allgatherBucketSize: ["allgather_bucket_size", "the largest unit of the model"],
    prefetchBucketSize: ["stage3_prefetch_bucket_size", "the largest unit of the model that is gathered for its use"],
    paramPersistenceThreshold: ["stage3_param_persistence_threshold", "ten times the model's width"],
    maxLiveParameters: ["stage3_max_live_parameters", "the largest unit of the model and what is gathered ahead"],
    maxReuseDistance: ["stage3_max_reuse_distance", "0: a unit is released after each use"],
    subGroupSize: [
      "sub_group_size",
      "a quarter of a rank's part of the largest unit, at least 2^20; with a ratio at most a tenth of a rank's elements",
    ],
  }),
};

function bySize(sizes: Readonly<Record<string, readonly [key: string, words: string]>>) {
  return Object.fromEntries(
    Object.entries(sizes).map(([name, [key, words]]) => [
      name,
      { path: `zero_optimization.${key}`, words, byModel: true as const },
    ]),
  );
}

/** @returns words by the names of the values that no key gives, or that an "auto" left open */
export function derivedWords(draft: Partial<ConfigResolution>, isModelKnown: boolean): Record<string, string> {
  const words: Record<string, string> = {};
  for (const [name, { path, words: rule, byModel }] of Object.entries(derivations)) {
    const auto = draft.autos?.find((filled) => filled.path === path);
    if (auto !== undefined) words[name] = `"auto": ${auto.why}`;
    else if (draft.sources?.get(path) === "derived")
      words[name] = byModel && !isModelKnown ? `${rule}; give --model to see it` : rule;
  }
  const { schedule } = draft;
  if (schedule && "totalSteps" in schedule && schedule.totalSteps === Number.POSITIVE_INFINITY)
    words["scheduler.totalSteps"] = runLength;
  return words;
}

/** In place of a number that a run knows and a file does not. */
export const runLength = "the run's length, known in training";

/** Keys that decide the offload details. */
export const offloadPaths: readonly string[] = [
  ...["device", "nvme_path", "buffer_count", "pin_memory", "pipeline_read", "pipeline_write", "ratio"].map(
    (key) => `zero_optimization.offload_optimizer.${key}`,
  ),
  ...["device", "nvme_path", "buffer_count", "buffer_size", "max_in_cpu", "pin_memory"].map(
    (key) => `zero_optimization.offload_param.${key}`,
  ),
  ...["block_size", "queue_depth", "intra_op_parallelism"].map((key) => `aio.${key}`),
  ...["nvme_paths", "disk_checksums", "delayed_update"].map((key) => `shunya.${key}`),
];

/** Offload in full; null where it could not be resolved. */
export function offloadDetails(draft: Partial<ConfigResolution>): object | null {
  const { offloadOptimizer, offloadParam, offloadRatio, pinMemory, disk, delayedUpdateFrom } = draft;
  if (disk === undefined) return null;
  return {
    optimizer: offloadOptimizer,
    parameters: offloadParam,
    ratio: offloadRatio,
    pinMemory,
    disk: { ...disk, parameterBufferElements: disk.parameterBufferElements ?? null },
    delayedUpdateFrom: delayedUpdateFrom ?? null,
  };
}
