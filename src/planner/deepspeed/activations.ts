/**
 * Activations of a transformer in PyTorch: what a layer keeps for its backward pass, and what exists besides while one layer is
 * in its backward pass. Korthikanti et al. 2022, section 4 ("34 s b h + 5 a s² b" for a GPT in 16 bits), term by term, so that other
 * layers (grouped keys, SwiGLU, no dropout, flash attention) come out of the same sum.
 */
import type { TransformerShape } from "../shape.ts";
import type { DeepSpeedPart, DeepSpeedQuestion } from "./question.ts";
import { countText, elementBytes } from "./states.ts";

type Layer = Pick<DeepSpeedQuestion, "shape" | "precision" | "seqLength" | "flashAttention" | "fusedLoss">;

/** Widths of a layer's tensors, in elements of a token. */
const keyValueWidth = ({ hidden, heads, keyValueHeads }: TransformerShape): number => (hidden * keyValueHeads) / heads;

const layerElementBytes = ({ precision }: Layer): number => (precision === "fp32" ? 4 : 2);

/** What a layer keeps for its backward pass, in bytes a token. */
export function keptBytesPerToken(layer: Layer): number {
  const { shape, fusedLoss } = layer;
  const { hidden, feedForward, isGated, hasDropout } = shape;
  const bytes = layerElementBytes(layer);
  const mask = hasDropout ? hidden : 0;
  // The RMS norm of the models that are gated is written in fp32: its input is kept in fp32 and its output before the weight in 16 bits.
  const norm = isGated && !fusedLoss ? (4 + bytes) * hidden : bytes * hidden;
  // Input; queries, keys and values; input of the output product.
  const attention = bytes * (hidden + hidden + 2 * keyValueWidth(shape) + hidden) + mask + scoreBytesPerToken(layer);
  // Input; before and after the activation; where gated: gate, its activation (not in fused kernels), up, their product.
  const inner = isGated ? (fusedLoss ? 3 : 4) : 2;
  const products = bytes * (hidden + inner * feedForward) + mask;
  return 2 * norm + attention + products;
}

/** Of the scores: each token's against all others (softmax, and with dropout its mask and what is left), or only a log-sum of each head. */
function scoreBytesPerToken(layer: Layer): number {
  const { shape, seqLength, flashAttention } = layer;
  if (flashAttention) return 4 * shape.heads;
  const bytes = layerElementBytes(layer);
  return shape.heads * seqLength * (bytes + (shape.hasDropout ? 1 + bytes : 0));
}

/** Gradients of activations in a layer's backward pass: of the stream and its branch, and of the widest inner tensor. */
function passingBytesPerToken(layer: Layer): number {
  const { shape, seqLength, flashAttention } = layer;
  const scores = flashAttention ? 0 : 2 * shape.heads * seqLength;
  return layerElementBytes(layer) * (2 * shape.hidden + Math.max(shape.feedForward, scores));
}

/**
 * Logits when the loss is made, in bytes a token: as the head gives them, and in fp32 as log-probabilities and as gradient. A fused
 * loss makes them in chunks as large as the hidden states (Liger's rule: chunk x vocabulary = tokens x hidden).
 */
export function logitBytesPerToken(layer: Layer): number {
  const { shape, fusedLoss } = layer;
  return (layerElementBytes(layer) + 8) * (fusedLoss ? shape.hidden : shape.vocabulary);
}

const tokensOf = ({ microBatch, seqLength }: DeepSpeedQuestion): number => microBatch * seqLength;

/** Through the whole model until the backward pass reaches them: every layer's input (checkpointing), or all that layers keep. */
export function keptActivations(question: DeepSpeedQuestion): DeepSpeedPart {
  const { shape, checkpointing } = question;
  const perLayer = checkpointing ? elementBytes(question) * shape.hidden : keptBytesPerToken(question);
  return {
    kind: "activations",
    name: checkpointing ? "checkpoints" : "activations",
    bytes: perLayer * shape.layers * tokensOf(question),
    why: `${countText(perLayer)} bytes x ${shape.layers} layers x ${countText(tokensOf(question))} tokens`,
  };
}

/** While one layer is in its backward pass: what passes through, and with checkpointing what its second forward pass made. */
export function workingSet(question: DeepSpeedQuestion): DeepSpeedPart {
  const perToken = passingBytesPerToken(question) + (question.checkpointing ? keptBytesPerToken(question) : 0);
  return {
    kind: "activations",
    name: "one layer in its backward pass",
    bytes: perToken * tokensOf(question),
    why: `${countText(perToken)} bytes x ${countText(tokensOf(question))} tokens`,
  };
}

export function logits(question: DeepSpeedQuestion): DeepSpeedPart {
  const perToken = logitBytesPerToken(question);
  return {
    kind: "activations",
    name: question.fusedLoss ? "logits of a chunk" : "logits",
    bytes: perToken * tokensOf(question),
    why: `${countText(perToken)} bytes x ${countText(tokensOf(question))} tokens`,
  };
}
