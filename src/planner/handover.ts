/**
 * What `--write-config` writes: a plan's configuration in the words that DeepSpeed's reader takes today. That reader is narrower
 * than ours: it has no "auto" outside its checked sections, no other spellings, and it stops at keys that it has dropped.
 * Checked against DeepSpeed itself by bench/handover (docs/plan-handover.md).
 */
import { joinPath, nodeFromValue } from "../config/json.ts";
import { canonicalPath, isCheckedSection, isNote, sections, specs, splitPath } from "../config/known-keys.ts";
import { sectionFor } from "../config/shorthands.ts";
import type { Stage } from "../config/types.ts";
import { UsageError } from "../errors/errors.ts";
import type { Placement } from "../plan/placement.ts";
import { type BatchSplit, placedSettings } from "./settings.ts";

type Section = { readonly [key: string]: unknown };

export interface HandoverJob {
  /** As a file has them, or plain ones. */
  readonly settings: Section;
  /** What each "auto" of the file became, by the table's path. */
  readonly autos: ReadonlyMap<string, unknown>;
  readonly placement: Placement;
  readonly batch: BatchSplit;
  readonly ranks: number;
  readonly checkpointing: boolean;
}

/** Keys that DeepSpeed refuses whatever they say, also where they say "off" (read from its 0.19.8); here none of them acts. */
const refusedKeys: ReadonlySet<string> = new Set([
  ...["amp", "elasticity", "progressive_layer_drop", "quantize_training", "curriculum_learning", "sparse_gradients"],
  ...["compression_training", "sparse_attention", "eigenvalue", "graph_harvesting", "nebula"],
  ...["mics_shard_size", "mics_hierarchical_params_gather", "zeropp_loco_param", "grad_hooks"].map(inZero),
  ...["cpu_offload_params", "cpu_offload_pin_memory"].map(inZero),
  ...["fp16.opt_level", "fp16.fp16_scale_tolerance", "optimizer.params.max_grad_norm"],
]);

/** Below the stage that shards parameters they do nothing, in either program. */
const gatherKeys = [
  ...["stage3_prefetch_bucket_size", "stage3_param_persistence_threshold", "stage3_max_live_parameters"],
  ...["stage3_max_reuse_distance", "sub_group_size"],
];
const unusedSizes: Readonly<Record<Stage, readonly string[]>> = { 0: gatherKeys, 1: gatherKeys, 2: gatherKeys, 3: [] };

/** DeepSpeed divides an update between device and host where parameters are sharded, and refuses such a ratio elsewhere. */
const dividesUpdates: Readonly<Record<Stage, boolean>> = { 0: false, 1: false, 2: false, 3: true };

const diskKeys = ["nvme_paths", "disk_checksums"];

function inZero(name: string): string {
  return `zero_optimization.${name}`;
}

/** @throws UsageError where the file asks for something that DeepSpeed does not have at the stage of the plan */
export function handedOver({ settings, autos, placement, batch, ranks, checkpointing }: HandoverJob): Section {
  const placed = placedSettings(sectionInItsWords(settings, "", autos), placement, batch, ranks);
  const zero = without(placed.zero_optimization as Section, unusedSizes[placement.stage]);
  checkRatio(zero.offload_optimizer, placement.stage);
  const own = ownSection(placed.shunya, placement, checkpointing);
  return {
    ...without(placed, ["shunya"]),
    ...untestedOptimizer(placed),
    zero_optimization: zero,
    ...(Object.keys(own).length > 0 && { shunya: own }),
  };
}

/** Every key by the table's spelling, with the value that is meant by what is written. */
function sectionInItsWords(section: Section, path: string, autos: HandoverJob["autos"]): Section {
  const kept = Object.entries(section).flatMap(([name, written]) => {
    const key = canonicalPath(joinPath(path, name));
    if (refusedKeys.has(key) || (isNote(name) && isCheckedSection(path))) return [];
    const value = valueInItsWords(key, written, autos);
    return value === undefined ? [] : [[splitPath(key)[1], value]];
  });
  return Object.fromEntries(kept);
}

/** @returns undefined: left out, which means the same */
function valueInItsWords(key: string, written: unknown, autos: HandoverJob["autos"]): unknown {
  const spec = specs.get(key);
  if (spec === undefined && sections.has(key)) {
    if (isSection(written)) return sectionInItsWords(written, key, autos);
    const meant = sectionFor(key, nodeFromValue(written, key, 0, key));
    return meant.kind === "value" ? { [splitPath(meant.path)[1]]: meant.value } : undefined;
  }
  if (spec !== undefined && written === "auto") return whatAutoBecame(key, autos);
  if (spec?.status !== "used") return written;
  const read = spec.type.read(nodeFromValue(written, key, 0, key));
  return isPlain(read) ? read : written;
}

/** @throws UsageError for the length of the run, which a plan does not know */
function whatAutoBecame(key: string, autos: HandoverJob["autos"]): unknown {
  const value = autos.get(key);
  const isUnknown = typeof value === "number" && !Number.isFinite(value);
  if (!isUnknown) return value;
  throw new UsageError(`${key} is "auto", which only a run can fill; write its number: --set ${key}=10000`);
}

const isSection = (value: unknown): value is Section =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Values that stand in a file as they are read; groups and delays do not. */
const isPlain = (value: unknown): boolean =>
  ["string", "number", "boolean"].includes(typeof value) ||
  (Array.isArray(value) && value.every((item) => typeof item === "number"));

function without(section: Section, names: readonly string[]): Section {
  return Object.fromEntries(Object.entries(section).filter(([name]) => !names.includes(name)));
}

function ownSection(given: unknown, { offloadOptimizer, offloadParam }: Placement, checkpointing: boolean): Section {
  const own = isSection(given) ? given : {};
  const usesDisk = offloadOptimizer === "nvme" || offloadParam === "nvme";
  return {
    ...(usesDisk ? own : without(own, diskKeys)),
    ...(checkpointing && { activation_checkpointing: true }),
  };
}

/** DeepSpeed has no SGD of its own, takes PyTorch's, and wants to be told so before it shards its states. */
function untestedOptimizer({ optimizer, zero_allow_untested_optimizer: given }: Section): Section {
  const isSgd = isSection(optimizer) && optimizer.type === "SGD";
  return isSgd && given === undefined ? { zero_allow_untested_optimizer: true } : {};
}

function checkRatio(offload: unknown, stage: Stage): void {
  const ratio = isSection(offload) ? offload.ratio : undefined;
  if (typeof ratio !== "number" || ratio === 1 || dividesUpdates[stage]) return;
  throw new UsageError(
    `offload_optimizer.ratio ${ratio}: DeepSpeed reads a ratio below 1 at stage 3 only, and stage ${stage} is recommended; ` +
      "give --set zero_optimization.offload_optimizer.ratio=1",
  );
}
