/** Where model states are asked to live: `offload_optimizer` and `offload_param`. */

import type { Settings } from "./reader.ts";
import type { DiskConfig, OffloadDevice, Stage } from "./types.ts";

export interface OffloadConfig {
  readonly offloadOptimizer: OffloadDevice;
  readonly offloadParam: OffloadDevice;
  readonly offloadRatio: number;
  readonly disk: DiskConfig;
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
  return { offloadOptimizer, offloadParam, offloadRatio, disk: resolveDisk(settings) };
}

/** Folders of both sections and our own list serve together: what is offloaded is divided among the drives. */
function resolveDisk(settings: Settings): DiskConfig {
  const named = [
    settings.get("zero_optimization.offload_optimizer.nvme_path"),
    settings.get("zero_optimization.offload_param.nvme_path"),
    ...(settings.get("shunya.nvme_paths") ?? []),
  ];
  return {
    folders: [...new Set(named.filter((folder) => folder !== undefined))],
    blockBytes: settings.get("aio.block_size"),
    queueDepth: settings.get("aio.queue_depth"),
    parallelism: settings.get("aio.intra_op_parallelism"),
    verify: settings.get("shunya.disk_checksums"),
    stateBuffers: settings.get("zero_optimization.offload_optimizer.buffer_count"),
    pipelineRead: settings.get("zero_optimization.offload_optimizer.pipeline_read") ?? true,
    pipelineWrite: settings.get("zero_optimization.offload_optimizer.pipeline_write") ?? true,
    parameterBuffers: settings.get("zero_optimization.offload_param.buffer_count"),
    parameterBufferElements: settings.get("zero_optimization.offload_param.buffer_size"),
    parametersInHost: settings.get("zero_optimization.offload_param.max_in_cpu") ?? 0,
  };
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
