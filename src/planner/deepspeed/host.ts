/**
 * Host memory and disk of a rank: what offload puts there. Source: DeepSpeed's stage_1_and_2.py, stage3.py and runtime/swap_tensor.
 * With the optimizer on the host this comes to 18 to 22 bytes a parameter over all ranks, and pinned memory is rounded up.
 */
import type { DeepSpeedQuestion } from "./question.ts";
import { elementBytes, gradientBytes, heldParameters, optimizerShareOnDevice, splitsOf } from "./states.ts";

/** `offload_optimizer.buffer_count`, each as large as the largest sub-group in fp32. */
const optimizerBufferCount = 4;
/** `offload_param.buffer_count` and `buffer_size` (elements). */
const parameterBufferCount = 5;
const parameterBufferElements = 1e8;
/** `offload_param.max_in_cpu`, elements of a rank. */
const parametersInHostElements = 1e9;

/** PyTorch's allocator of pinned host memory rounds a block up to a power of two. */
const pinnedBytes = (bytes: number, { pinMemory }: DeepSpeedQuestion): number =>
  pinMemory && bytes > 0 ? 2 ** Math.ceil(Math.log2(bytes)) : bytes;

/** So much in blocks of at most `blockBytes`. */
function pinnedBlocks(bytes: number, blockBytes: number, question: DeepSpeedQuestion): number {
  const blocks = Math.floor(bytes / blockBytes);
  return blocks * pinnedBytes(blockBytes, question) + pinnedBytes(bytes - blocks * blockBytes, question);
}

/** At the fullest moment: training, or loading where every rank first has the whole model in fp32. */
export function hostBytes(question: DeepSpeedQuestion): number {
  const loading = question.zeroInit ? 0 : 4 * question.shape.parameters;
  return Math.max(loading, optimizerHostBytes(question) + parameterHostBytes(question));
}

function optimizerHostBytes(question: DeepSpeedQuestion): number {
  const { placement, optimizerBytes, gradientAccumulation, buckets } = question;
  if (placement.offloadOptimizer === "none") return 0;
  const isSharded = splitsOf(question).parameters === "shard";
  const held = heldParameters(question, "optimizer");
  const subGroup = Math.min(buckets.subGroupElements, held);
  // Stage 3 adds up gradients in one flat buffer. Below it, the update's result is staged in 16 bits, and gradients of several
  // micro-batches are added up in a second buffer.
  const flat = isSharded
    ? pinnedBytes(gradientBytes(question) * held, question)
    : pinnedBytes(elementBytes(question) * held, question) +
      (gradientAccumulation > 1 ? pinnedBytes(gradientBytes(question) * held, question) : 0);
  if (placement.offloadOptimizer === "nvme")
    return flat + optimizerBufferCount * pinnedBytes(4 * subGroup, question) + pinnedBytes(4 * subGroup, question);
  const fp32Gradients = pinnedBlocks(4 * held, 4 * (isSharded ? subGroup : held), question);
  return (optimizerBytes * held + fp32Gradients) * (1 - optimizerShareOnDevice(question)) + flat;
}

function parameterHostBytes(question: DeepSpeedQuestion): number {
  const held = heldParameters(question, "parameters");
  const bytes = elementBytes(question);
  const inHost: Record<DeepSpeedQuestion["placement"]["offloadParam"], number> = {
    none: 0,
    cpu: pinnedBytes(bytes * held, question),
    nvme:
      pinnedBytes(parameterBufferCount * bytes * parameterBufferElements, question) +
      bytes * Math.min(parametersInHostElements, held),
  };
  return inHost[question.placement.offloadParam];
}

/** Master weights and moments, and the fp32 gradients that wait for the update; parameters. */
export function diskBytes(question: DeepSpeedQuestion): number {
  const { placement, optimizerBytes } = question;
  const optimizer =
    placement.offloadOptimizer === "nvme" ? (optimizerBytes + 4) * heldParameters(question, "optimizer") : 0;
  const parameters =
    placement.offloadParam === "nvme" ? elementBytes(question) * heldParameters(question, "parameters") : 0;
  return optimizer + parameters;
}
