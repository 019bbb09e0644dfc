/** What only training needs of an offload configuration: a folder for what goes to disk, and which memory is locked. */
import type { ResolvedConfig } from "../config/types.ts";
import { type MemoryLabel, optimizerParts } from "../device/ledger.ts";
import { UsageError } from "../errors/errors.ts";

/** @throws UsageError where something goes to disk and nobody said where */
export function checkFolders({ offloadOptimizer, offloadParam, disk }: ResolvedConfig): void {
  const section =
    offloadOptimizer === "nvme" ? "offload_optimizer" : offloadParam === "nvme" ? "offload_param" : undefined;
  if (section === undefined || disk.folders.length > 0) return;
  const key = `zero_optimization.${section}.nvme_path`;
  throw new UsageError(
    `${key} is left out, though ${section} has "device": "nvme"; name a folder on a fast drive (--set ${key}=/path/to/folder)`,
  );
}

/** Kinds of host memory that are page-locked. Staging serves whatever crosses. */
export function pinnedKinds({ pinMemory }: Pick<ResolvedConfig, "pinMemory">): ReadonlySet<MemoryLabel> {
  const { optimizer, parameters } = pinMemory;
  return new Set<MemoryLabel>([
    ...(optimizer ? (["optimizer", ...optimizerParts, "gradients"] as const) : []),
    ...(parameters ? (["parameters"] as const) : []),
    ...(optimizer || parameters ? (["staging"] as const) : []),
  ]);
}
