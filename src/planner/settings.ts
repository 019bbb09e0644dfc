/** The DeepSpeed configuration of a plan as an object: what somebody asked for, with states placed and a batch divided as the plan says. */
import type { ElementType, OptimizerConfig } from "../config/types.ts";
import type { Placement } from "../plan/placement.ts";

/** How the sequences that a rank takes in a step are divided. */
export interface BatchSplit {
  readonly microBatch: number;
  readonly gradientAccumulation: number;
}

export interface PlainJob {
  readonly precision: ElementType;
  readonly optimizer: OptimizerConfig["type"];
  readonly checkpointing: boolean;
}

type Section = { readonly [key: string]: unknown };

/** Where a plan does not know the drive; DeepSpeed wants a path. */
export const unnamedFolder = "/local_nvme";

const parametersOf: Readonly<Record<OptimizerConfig["type"], Section>> = {
  Adam: { lr: 3e-4, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.1 },
  AdamW: { lr: 3e-4, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.1 },
  Lion: { lr: 1e-4, betas: [0.9, 0.99], weight_decay: 0.1 },
  SGD: { lr: 0.1, momentum: 0.9 },
  Adagrad: { lr: 0.01 },
};

/** A configuration that says no more than it must: what is left out is derived from the model. */
export function plainSettings({ precision, optimizer, checkpointing }: PlainJob): Section {
  return {
    ...(precision !== "fp32" && { [precision]: { enabled: true } }),
    zero_optimization: {},
    optimizer: { type: optimizer, params: parametersOf[optimizer] },
    gradient_clipping: 1,
    ...(checkpointing && { shunya: { activation_checkpointing: true } }),
  };
}

/** Keys of old files that say where states are. */
const oldOffloadKeys = ["cpu_offload", "cpu_offload_params", "cpu_offload_param", "cpu_offload_use_pin_memory"];

/** `settings` with the placement and the batch of a plan; what else it says stays. */
export function placedSettings(settings: Section, placement: Placement, batch: BatchSplit, ranks: number): Section {
  const {
    train_batch_size: _,
    train_micro_batch_size_per_gpu: __,
    gradient_accumulation_steps: ___,
    ...rest
  } = settings;
  const zero = settings.zero_optimization;
  const section = typeof zero === "object" && zero !== null ? (zero as Section) : {};
  const kept = Object.fromEntries(
    Object.entries(section).filter(([key]) => !oldOffloadKeys.includes(key) && !key.startsWith("offload_")),
  );
  return {
    train_batch_size: batch.microBatch * batch.gradientAccumulation * ranks,
    train_micro_batch_size_per_gpu: batch.microBatch,
    gradient_accumulation_steps: batch.gradientAccumulation,
    ...rest,
    zero_optimization: {
      ...kept,
      stage: placement.stage,
      ...offloadSection("offload_optimizer", placement.offloadOptimizer, section),
      ...offloadSection("offload_param", placement.offloadParam, section),
    },
  };
}

function offloadSection(name: string, device: Placement["offloadParam"], zero: Section): Section {
  if (device === "none") return {};
  const given = zero[name];
  const kept = typeof given === "object" && given !== null ? (given as Section) : {};
  const folder = device === "nvme" ? { nvme_path: kept.nvme_path ?? unnamedFolder } : {};
  return { [name]: { ...kept, device, ...folder } };
}
