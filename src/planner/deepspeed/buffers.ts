/** What DeepSpeed allocates on the device beside states and activations. Source: its runtime/zero/stage_1_and_2.py, stage3.py. */
import type { DeepSpeedPart, DeepSpeedQuestion } from "./question.ts";
import { countText, elementBytes, gradientBytes, heldParameters, optimizerShareOnDevice, splitsOf } from "./states.ts";

/**
 * cuBLAS workspaces that PyTorch allocates, one for the forward and one for the backward thread: 32 MiB each on Hopper (8 MiB before).
 * PyTorch's notes on CUBLAS_WORKSPACE_CONFIG.
 */
const workspaceBytes = 2 * 32 * 2 ** 20;

const buffer = (name: string, bytes: number, why: string): DeepSpeedPart => ({ kind: "buffers", name, bytes, why });

const isSharded = (question: DeepSpeedQuestion): boolean => splitsOf(question).parameters === "shard";

/** From the start of the job to its end. At stage 3 the reduce bucket is allocated once, whatever the model's size. */
export function restingBuffers(question: DeepSpeedQuestion): DeepSpeedPart[] {
  const { reduceElements } = question.buckets;
  const bytes = elementBytes(question);
  const bucket = buffer(
    "reduce bucket",
    bytes * reduceElements,
    `${bytes} bytes x reduce_bucket_size ${countText(reduceElements)}`,
  );
  return [
    buffer("workspaces", workspaceBytes, "cuBLAS, 2 x 32 MiB"),
    ...(isSharded(question) ? [bucket, persistentParameters(question)] : []),
  ];
}

/** Norms and biases up to the threshold stay gathered: 13 x hidden of a GPT's layer, 2 x hidden where nothing has a bias. */
function persistentParameters(question: DeepSpeedQuestion): DeepSpeedPart {
  const { shape, buckets } = question;
  const perLayer = shape.hidden <= buckets.persistenceElements ? (shape.isGated ? 2 : 13) * shape.hidden : 0;
  const bytes = elementBytes(question) * perLayer * shape.layers;
  return buffer("persistent parameters", bytes, "norms and biases up to stage3_param_persistence_threshold");
}

/** In the passes. */
export function passBuffers(question: DeepSpeedQuestion): DeepSpeedPart[] {
  return isSharded(question) ? shardedPassBuffers(question) : wholePassBuffers(question);
}

function wholePassBuffers(question: DeepSpeedQuestion): DeepSpeedPart[] {
  // Where no optimizer is sharded gradients are reduced after the backward pass: see `updateBuffers`.
  if (splitsOf(question).optimizer === "whole") return [];
  const { buckets, overlapComm } = question;
  const bytes = elementBytes(question);
  const count = overlapComm ? 2 : 1;
  return [
    buffer(
      "reduce buckets",
      count * bytes * buckets.reduceElements,
      `${count} x ${bytes} bytes x reduce_bucket_size ${countText(buckets.reduceElements)}, from the first gradient to the last`,
    ),
    ...(splitsOf(question).gradients === "whole" ? [] : [arrivingGradient(question)]),
  ];
}

function shardedPassBuffers(question: DeepSpeedQuestion): DeepSpeedPart[] {
  const { shape, buckets, ranks } = question;
  const bytes = elementBytes(question);
  const reduced = Math.min(shape.parameters, Math.max(buckets.reduceElements, largestParameter(question)));
  return [
    gatheredParameters(question),
    buffer(
      "reduce-scatter input",
      ranks > 1 ? bytes * reduced : 0,
      `${bytes} bytes x ${countText(reduced)}: a full bucket in the ranks' order; a parameter larger than the bucket goes alone`,
    ),
    arrivingGradient(question),
  ];
}

/**
 * The live window; or all parameters, where PyTorch's own products keep their weights for the backward pass and no checkpointing lets
 * go of them (zero.Init replaces them: `memory_efficient_linear`). One rank uses its parameters where they lie.
 */
function gatheredParameters(question: DeepSpeedQuestion): DeepSpeedPart {
  const { shape, buckets, ranks, placement, checkpointing, zeroInit } = question;
  const isGathered = ranks > 1 || placement.offloadParam !== "none";
  const isKept = !(checkpointing || zeroInit);
  const elements = isKept ? shape.parameters : Math.min(buckets.liveElements, shape.parameters);
  const bytes = elementBytes(question);
  return buffer(
    "gathered parameters",
    isGathered ? bytes * elements : 0,
    isKept
      ? `${bytes} bytes x ${countText(elements)} parameters: kept for the backward pass`
      : `${bytes} bytes x ${countText(elements)}: stage3_max_live_parameters, at most the model`,
  );
}

const largestParameter = ({ shape }: DeepSpeedQuestion): number => shape.vocabulary * shape.hidden;

/**
 * The largest parameter's gradient before it is copied into the bucket: the head's, at the beginning of the backward pass. Where gradients
 * are whole it is one of them.
 */
function arrivingGradient(question: DeepSpeedQuestion): DeepSpeedPart {
  const bytes = elementBytes(question) * largestParameter(question);
  return buffer(
    "the head's gradient",
    bytes,
    `${elementBytes(question)} bytes x vocabulary ${countText(question.shape.vocabulary)} x hidden ${question.shape.hidden}`,
  );
}

/** In the update. */
export function updateBuffers(question: DeepSpeedQuestion): DeepSpeedPart[] {
  const onDevice = optimizerShareOnDevice(question) > 0;
  if (isSharded(question)) return onDevice ? [subGroupCopies(question)] : [];
  return [wholeUpdateBuffer(question, onDevice)];
}

/**
 * Stage 3 updates one sub-group at a time: it flattens its gradients, and makes a copy of that in the master weights' type, and for a
 * moment both exist.
 */
function subGroupCopies(question: DeepSpeedQuestion): DeepSpeedPart {
  const { masterBytes, buckets } = question;
  const elements = Math.min(buckets.subGroupElements, heldParameters(question, "optimizer"));
  const flat = gradientBytes(question);
  const perElement = flat === masterBytes ? flat : flat + masterBytes;
  return buffer(
    "gradients of a sub-group",
    perElement * elements,
    `${perElement} bytes x ${countText(elements)}: sub_group_size, at most what the rank has`,
  );
}

/**
 * Below stage 3 all gradients that a rank updates are copied to the master weights' type at once: the "18 (or 20) bytes a parameter" of
 * DeepSpeed's own estimator. (The code flattens them first, 2 bytes more for a moment; the peak of issue 3734 has no room for that.)
 * After the update the all-gather stages a bucket; at stage 0 the reduction does so before it.
 */
function wholeUpdateBuffer(question: DeepSpeedQuestion, onDevice: boolean): DeepSpeedPart {
  const { shape, masterBytes, buckets, ranks } = question;
  const copies = onDevice ? masterBytes * heldParameters(question, "optimizer") : 0;
  const bytes = elementBytes(question);
  const isReplicated = splitsOf(question).optimizer === "whole";
  const bucketElements = isReplicated ? buckets.reduceElements : buckets.allgatherElements;
  const staged = ranks > 1 ? bytes * Math.min(bucketElements, shape.parameters) : 0;
  return copies >= staged
    ? buffer(
        "gradients in the master weights' type",
        copies,
        `${masterBytes} bytes x ${countText(heldParameters(question, "optimizer"))} parameters that this rank updates`,
      )
    : buffer(
        isReplicated ? "gradients being reduced" : "parameters being gathered",
        staged,
        `${bytes} bytes x ${isReplicated ? "reduce_bucket_size" : "allgather_bucket_size"} ${countText(bucketElements)}, at most the model`,
      );
}
