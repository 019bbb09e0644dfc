/** Offload is read and resolved, and refused where training begins: this version keeps all model states on the device. */
import type { ResolvedConfig } from "../config/types.ts";
import { UsageError } from "../errors/errors.ts";

/** @throws UsageError while the configuration asks for another tier */
export function refuseOffload({ offloadOptimizer, offloadParam }: ResolvedConfig): void {
  const asked = [
    ["offload_optimizer", offloadOptimizer],
    ["offload_param", offloadParam],
  ].filter(([, device]) => device !== "none");
  if (asked.length === 0) return;
  const sections = asked.map(([section, device]) => `zero_optimization.${section} (device "${device}")`);
  throw new UsageError(
    `found ${sections.join(" and ")}; this version trains without offload, and its device is the machine's own memory ` +
      `already: leave ${asked.length > 1 ? "them" : "it"} out, or set "device" to "none" ` +
      `(${asked.map(([section]) => `--set zero_optimization.${section}.device=none`).join(" ")})`,
  );
}
