/** What only training needs of an offload configuration: a folder for what goes to disk. */
import type { ResolvedConfig } from "../config/types.ts";
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
