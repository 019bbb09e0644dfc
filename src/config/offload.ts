/** Where model states are asked to live: `offload_optimizer` and `offload_param`. */

import type { Settings } from "./reader.ts";
import type { OffloadDevice, Stage } from "./types.ts";

export interface OffloadConfig {
  readonly offloadOptimizer: OffloadDevice;
  readonly offloadParam: OffloadDevice;
  readonly offloadRatio: number;
}

const optimizerDevice = "zero_optimization.offload_optimizer.device";
const parameterDevice = "zero_optimization.offload_param.device";

export function resolveOffload(settings: Settings, stage: Stage): OffloadConfig {
  const optimizer = settings.get(optimizerDevice);
  const parameters = settings.get(parameterDevice);
  const offloadParam = parameters === "none" || stage < 3 ? "none" : parameters;
  if (parameters !== offloadParam)
    settings.warn(
      parameterDevice,
      `parameters are whole below stage 3, so this is ignored; use stage 3, or remove offload_param`,
    );
  const offloadOptimizer = stage === 0 ? "none" : optimizer;
  if (optimizer !== offloadOptimizer)
    settings.warn(optimizerDevice, "stage 0 shares no optimizer states, so this is ignored; use stage 1, 2 or 3");
  for (const [device, path, section] of [
    [offloadOptimizer, optimizerDevice, "offload_optimizer"],
    [offloadParam, parameterDevice, "offload_param"],
  ] as const) {
    if (device === "none") continue;
    const folder = `zero_optimization.${section}.nvme_path` as const;
    if (device === "nvme" && settings.get(folder) === undefined)
      settings.warn(folder, "left out, though the device is nvme; name a folder on a fast disk");
  }
  emptySection(settings, "offload_optimizer", optimizerDevice);
  emptySection(settings, "offload_param", parameterDevice);
  const offloadRatio = settings.get("zero_optimization.offload_optimizer.ratio");
  return { offloadOptimizer, offloadParam, offloadRatio };
}

/** `{}` says "offload" to a reader and "do not" to DeepSpeed. */
function emptySection(settings: Settings, name: "offload_optimizer" | "offload_param", device: string): void {
  const section = `zero_optimization.${name}`;
  if (settings.hasSection(section) && settings.placeOf(device) === undefined)
    settings.warn(
      section,
      'says no device, which means "none", as in DeepSpeed; write device cpu, or remove the section',
    );
}
