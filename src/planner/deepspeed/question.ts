/** What is asked of a PyTorch + DeepSpeed job, and what is answered. All bytes are of one rank (a card) unless they say otherwise. */
import type { ElementType, Stage } from "../../config/types.ts";
import type { Placement } from "../../plan/placement.ts";
import type { Estimate } from "../estimate.ts";
import type { TransformerShape } from "../shape.ts";

/** DeepSpeed's bucket sizes under `zero_optimization`, in elements; the last three act at stage 3 only. */
export interface DeepSpeedBuckets {
  readonly reduceElements: number;
  readonly allgatherElements: number;
  readonly prefetchElements: number;
  /** `stage3_max_live_parameters`. */
  readonly liveElements: number;
  /** `stage3_param_persistence_threshold`. */
  readonly persistenceElements: number;
  /** `sub_group_size`. */
  readonly subGroupElements: number;
}

export interface DeepSpeedQuestion {
  readonly shape: TransformerShape;
  readonly placement: Placement;
  readonly ranks: number;
  readonly ranksPerNode: number;
  readonly microBatch: number;
  /** In tokens. */
  readonly seqLength: number;
  readonly gradientAccumulation: number;
  readonly precision: ElementType;
  /** Of a parameter, master weight included: 12 for Adam, 8 for Lion, 6 for Adam with 16-bit master weights and moments. */
  readonly optimizerBytes: number;
  /** Of a master weight, and so of the gradient copy that the update reads: 4, or 2 with `bf16_master_weights_and_grads`. */
  readonly masterBytes: 2 | 4;
  /** Of a gradient kept between micro-batches: `data_types.grad_accum_dtype`. */
  readonly gradientAccumulationBytes: 2 | 4;
  readonly checkpointing: boolean;
  readonly flashAttention: boolean;
  /** Fused kernels (Liger and the like): the loss is made in chunks, so that the logits never exist at once; norms and SwiGLU keep no copies. */
  readonly fusedLoss: boolean;
  readonly buckets: DeepSpeedBuckets;
  readonly overlapComm: boolean;
  /** Of the host's copies of states. */
  readonly pinMemory: boolean;
  /** `offload_optimizer.ratio`: of the sub-groups, the part whose states are on the host. */
  readonly offloadRatio: number;
  /**
   * The model is made under `deepspeed.zero.Init` (Transformers does so when it is given a stage 3 file). Without it every rank at
   * stage 3 first holds the whole model, on the host in fp32 and then on the card; and products are PyTorch's own, which keep their
   * gathered weights for the backward pass.
   */
  readonly zeroInit: boolean;
}

export type DeepSpeedKind = "parameters" | "gradients" | "optimizer" | "activations" | "buffers";

/** A term of the estimate. */
export interface DeepSpeedPart {
  readonly kind: DeepSpeedKind;
  readonly name: string;
  readonly bytes: number;
  /** The formula with its numbers: "2 bytes x 6,738,415,616 parameters / 8 ranks". */
  readonly why: string;
}

/**
 * When memory is fullest: while the model is loaded; when the loss is made (all activations kept, and the logits); in the backward pass; in the
 * update, which copies gradients.
 */
export type DeepSpeedMoment = "start" | "loss" | "backward" | "update";

/** `device.totalBytes` decides fit: the peak that PyTorch's allocator hands out. The CUDA context is not in it: usable bytes exclude it. */
export interface DeepSpeedEstimate extends Estimate {
  /** At rest after a step: `torch.cuda.memory_allocated`. */
  readonly allocatedBytes: number;
  /** `torch.cuda.max_memory_allocated`. */
  readonly peakBytes: number;
  /** `torch.cuda.max_memory_reserved`: with the blocks that the allocator keeps for later. */
  readonly reservedBytes: number;
  /** Outside the allocator: CUDA's context and NCCL. nvidia-smi shows it on top of the reserved. */
  readonly contextBytes: number;
  readonly fullestMoment: DeepSpeedMoment;
  /** What each moment takes; a job that loads sharded has no "start". */
  readonly moments: Readonly<Partial<Record<DeepSpeedMoment, number>>>;
  /** On the device at the fullest moment. Their sum is `device.totalBytes`. */
  readonly parts: readonly DeepSpeedPart[];
}

/** DeepSpeed 0.19's defaults. Source: its runtime/zero/config.py. */
export const defaultBuckets: DeepSpeedBuckets = {
  reduceElements: 5e8,
  allgatherElements: 5e8,
  prefetchElements: 5e7,
  liveElements: 1e9,
  persistenceElements: 1e5,
  subGroupElements: 1e9,
};

/**
 * What Transformers writes where a file says "auto" (its DeepSpeed integration): buckets that follow the model's width. The live window
 * and the sub-group keep DeepSpeed's defaults.
 */
export const transformersAutoBuckets = ({ hidden }: Pick<TransformerShape, "hidden">): DeepSpeedBuckets => ({
  ...defaultBuckets,
  reduceElements: hidden * hidden,
  prefetchElements: Math.floor(0.9 * hidden * hidden),
  persistenceElements: 10 * hidden,
});

/** What a job has unless it says otherwise: DeepSpeed's defaults, and for what the model's code decides the usual. */
export const deepSpeedDefaults = {
  gradientAccumulation: 1,
  precision: "bf16",
  optimizerBytes: 12,
  masterBytes: 4,
  gradientAccumulationBytes: 2,
  checkpointing: false,
  flashAttention: true,
  fusedLoss: false,
  buckets: defaultBuckets,
  pinMemory: true,
  offloadRatio: 1,
  zeroInit: true,
} as const satisfies Partial<DeepSpeedQuestion>;

/** `overlap_comm` left out: on at stage 3, else off. */
export const defaultOverlapComm: Readonly<Record<Stage, boolean>> = { 0: false, 1: false, 2: false, 3: true };
