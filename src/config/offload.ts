/** Where model states are asked to live: `offload_optimizer` and `offload_param`. */

import type { Settings } from "./reader.ts";
import type { DiskConfig, OffloadDevice, ResolvedConfig, Stage } from "./types.ts";

export type OffloadConfig = Pick<
  ResolvedConfig,
  "offloadOptimizer" | "offloadParam" | "offloadRatio" | "pinMemory" | "disk" | "delayedUpdateFrom"
>;

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
  const disk = resolveDisk(settings, offloadOptimizer, offloadParam);
  for (const [device, section] of [
    [offloadOptimizer, "offload_optimizer"],
    [offloadParam, "offload_param"],
  ] as const)
    if (device === "nvme" && disk.folders.length === 0)
      settings.warn(
        `zero_optimization.${section}.nvme_path`,
        "left out, though the device is nvme, so nothing can be trained with this; name a folder on a fast drive",
      );
  if (offloadOptimizer !== "nvme" && offloadParam !== "nvme") diskKeysWithoutDisk(settings);
  emptySection(settings, "offload_optimizer", optimizerDevice);
  emptySection(settings, "offload_param", parameterDevice);
  return {
    offloadOptimizer,
    offloadParam,
    offloadRatio: settings.get("zero_optimization.offload_optimizer.ratio"),
    pinMemory: {
      optimizer: offloadOptimizer !== "none" && settings.get("zero_optimization.offload_optimizer.pin_memory"),
      parameters: offloadParam !== "none" && settings.get("zero_optimization.offload_param.pin_memory"),
    },
    disk,
    delayedUpdateFrom: resolveDelay(settings, stage, offloadOptimizer),
  };
}

/** @returns the first step whose update is delayed */
function resolveDelay(settings: Settings, stage: Stage, optimizer: OffloadDevice): number | undefined {
  const path = "shunya.delayed_update";
  const from = settings.get(path);
  if (from === false) return undefined;
  if (optimizer === "none")
    settings.error(
      path,
      `only an update on the host can run beside the next step; ${
        stage === 0 ? "use stage 1, 2 or 3 with" : "write"
      } ${optimizerDevice} cpu or nvme, or remove the key`,
    );
  const ratio = settings.get("zero_optimization.offload_optimizer.ratio");
  if (ratio < 1)
    settings.error(
      path,
      `found with offload_optimizer.ratio ${ratio}, where a part of the update runs on the device; write ratio 1, or remove one of the two`,
    );
  return from.startStep;
}

/** Our own keys for the disk tier, where nothing lies on a disk. */
function diskKeysWithoutDisk(settings: Settings): void {
  for (const [path, says] of [
    ["shunya.nvme_paths", settings.get("shunya.nvme_paths") !== undefined],
    ["shunya.disk_checksums", !settings.get("shunya.disk_checksums")],
  ] as const)
    if (says)
      settings.warn(path, "no effect, since nothing is offloaded to disk; write device nvme, or remove the key");
}

/** Folders of the sections that want a disk and our own list serve together: what is offloaded is divided among the drives. */
function resolveDisk(settings: Settings, optimizer: OffloadDevice, parameters: OffloadDevice): DiskConfig {
  const named = [
    optimizer === "nvme" ? settings.get("zero_optimization.offload_optimizer.nvme_path") : undefined,
    parameters === "nvme" ? settings.get("zero_optimization.offload_param.nvme_path") : undefined,
    ...((optimizer === "nvme" || parameters === "nvme" ? settings.get("shunya.nvme_paths") : undefined) ?? []),
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
