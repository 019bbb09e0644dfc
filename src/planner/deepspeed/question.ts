/** What is asked of a PyTorch + DeepSpeed job, and what is answered. All bytes are of one rank (a card) unless they say otherwise. */
import type { ElementType } from "../../config/types.ts";
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
  /** The loss is made in chunks (Liger and the like), so that the logits never exist at once. */
  readonly fusedLoss: boolean;
  readonly buckets: DeepSpeedBuckets;
  readonly overlapComm: boolean;
  /** Of the host's copies of states. */
  readonly pinMemory: boolean;
  /** `offload_optimizer.ratio`: of the sub-groups, the part whose states are on the host (stage 3). */
  readonly offloadRatio: number;
}

/** A term of the estimate. */
export interface DeepSpeedPart {
  readonly name: string;
  readonly bytes: number;
  /** The formula with its numbers. */
  readonly why: string;
}

/** `device.totalBytes` is what decides fit: the peak that PyTorch's allocator holds, without the CUDA context, which usable bytes exclude. */
export interface DeepSpeedEstimate extends Estimate {
  /** At rest after a step: `torch.cuda.memory_allocated`. */
  readonly allocatedBytes: number;
  /** `torch.cuda.max_memory_allocated`. */
  readonly peakBytes: number;
  /** `torch.cuda.max_memory_reserved`: with the allocator's cached blocks. */
  readonly reservedBytes: number;
  /** Outside the allocator: CUDA's context, the libraries' workspaces and NCCL's buffers. nvidia-smi shows it on top of the reserved. */
  readonly contextBytes: number;
  /** At the fullest moment, on the device. */
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
