/** What sizes under `zero_optimization` come to: in Shunya, which caps them at the model, and in DeepSpeed, which obeys them as they stand. */
import { specs } from "../config/known-keys.ts";
import type { SizesConfig } from "../config/types.ts";
import { type DType, dtypeBytes } from "../device/dtype.ts";
import { InternalError } from "../errors/errors.ts";
import type { PlannedSizes } from "../plan/sizes.ts";
import { parametersOf, type Subject } from "./explained.ts";

export type SizeName = keyof PlannedSizes;

/** Key under `zero_optimization`, and the name of what a file wrote there. */
const written: Readonly<Record<SizeName, readonly [key: string, size: keyof SizesConfig]>> = {
  reduceBucket: ["reduce_bucket_size", "reduceBucketSize"],
  allgatherBucket: ["allgather_bucket_size", "allgatherBucketSize"],
  prefetch: ["stage3_prefetch_bucket_size", "prefetchBucketSize"],
  liveParameters: ["stage3_max_live_parameters", "maxLiveParameters"],
  reuseDistance: ["stage3_max_reuse_distance", "maxReuseDistance"],
  persistence: ["stage3_param_persistence_threshold", "paramPersistenceThreshold"],
  subGroup: ["sub_group_size", "subGroupSize"],
};

export interface BucketSize {
  readonly name: SizeName;
  readonly path: string;
  /** What the file or a flag says; undefined: left out. */
  readonly writtenElements: number | undefined;
  /** In Shunya; undefined where it is derived from a model that is not known. */
  readonly elements: number | undefined;
  /** How Shunya's came about. */
  readonly why: string;
  /** What DeepSpeed takes: as written, or its default. */
  readonly deepSpeedElements: number;
  /** Of what is in it. */
  readonly type: DType;
}

/** In the order of the key table. */
export function bucketSizes(subject: Subject): BucketSize[] {
  const { config, plan } = subject;
  return (Object.keys(written) as SizeName[]).map((name) => {
    const [key, size] = written[name];
    const path = `zero_optimization.${key}`;
    const own = config.sizes[size];
    return {
      name,
      path,
      writtenElements: own,
      elements: elementsOf(subject, name, own),
      why: own === undefined ? plan.sizes[name].why : "written",
      deepSpeedElements: own ?? deepSpeedDefault(path),
      type: typeIn(name, plan.residences.parameters.dtype),
    };
  });
}

const noBuffers: readonly SizeName[] = ["persistence", "reuseDistance"];

/** The plan caps what is written, but for the two that are no buffers. */
function elementsOf(subject: Subject, name: SizeName, own: number | undefined): number | undefined {
  const { known, plan, sizes } = subject;
  if (known === "model") return plan.sizes[name].elements;
  if (own === undefined) return name === "reuseDistance" ? 0 : sizes?.[name].elements;
  return noBuffers.includes(name) ? own : Math.min(own, parametersOf(subject) ?? own);
}

/** @throws InternalError for a key of which the table has no number of DeepSpeed's */
function deepSpeedDefault(path: string): number {
  const spec = specs.get(path);
  if (spec?.status !== "used" || typeof spec.deepspeed !== "number")
    throw new InternalError(`${path} has no default of DeepSpeed's`);
  return spec.deepspeed;
}

/** Sub-groups are of fp32 states; all else is parameters, or gradients as they are produced. */
const typeIn = (name: SizeName, type: DType): DType => (name === "subGroup" ? "f32" : type);

export const bytesIn = (elements: number, type: DType): number => elements * dtypeBytes[type];

/** How many buckets so many elements fill, by division, and what is in the last one if it is not full. */
export function piecesOf(elements: number, bucketElements: number): { readonly pieces: number; readonly last: number } {
  const pieces = Math.ceil(elements / bucketElements);
  return { pieces, last: elements - (pieces - 1) * bucketElements };
}
