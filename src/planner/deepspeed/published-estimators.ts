/**
 * DeepSpeed's own estimators as published (runtime/zero/stage_1_and_2.py and stage3.py of 0.19.6), to compare with. They count model states
 * only: no activations, logits, buckets, context. All results are bytes, cut to whole ones.
 */

/** DeepSpeed multiplies every host figure by it. */
const bufferFactor = 1.5;

export interface PublishedEstimate {
  readonly deviceBytes: number;
  /** Of a node. */
  readonly hostBytes: number;
}

interface Cluster {
  readonly parameters: number;
  readonly ranksPerNode: number;
  readonly nodes: number;
}

export interface Zero2EstimateQuestion extends Cluster {
  readonly offloadOptimizer: boolean;
}

export interface Zero3EstimateQuestion extends Cluster {
  /** Of the largest module, its own parameters only: usually the token embedding. */
  readonly largestLayerParameters: number;
  readonly offload: "none" | "optimizer" | "optimizer and parameters";
  /** The model is made under `deepspeed.zero.Init`, so that no rank ever holds all of it. */
  readonly zeroInit: boolean;
}

/** `estimate_zero2_model_states_mem_needs`. */
export function deepSpeedZero2Estimate(question: Zero2EstimateQuestion): PublishedEstimate {
  const { parameters, ranksPerNode, nodes, offloadOptimizer } = question;
  const ranks = ranksPerNode * nodes;
  if (offloadOptimizer) return whole(2 * parameters, parameters * Math.max(4 * ranks, 16) * bufferFactor);
  return whole(2 * parameters + Math.trunc((18 * parameters) / ranks), parameters * 4 * ranksPerNode * bufferFactor);
}

/** `estimate_zero3_model_states_mem_needs`. */
export function deepSpeedZero3Estimate(question: Zero3EstimateQuestion): PublishedEstimate {
  const { parameters, largestLayerParameters, ranksPerNode, nodes, offload, zeroInit } = question;
  const ranks = ranksPerNode * nodes;
  const gatheredBytes = 4 * largestLayerParameters;
  const loadedBytes = 4 * ranksPerNode;
  const held = (bytes: number) => (zeroInit ? bytes / nodes : Math.max(loadedBytes, bytes / nodes));
  const deviceBytes: Record<Zero3EstimateQuestion["offload"], number> = {
    "optimizer and parameters": gatheredBytes,
    optimizer: gatheredBytes + Math.trunc((2 * parameters) / ranks),
    none: gatheredBytes + Math.trunc((18 * parameters) / ranks),
  };
  const hostBytes: Record<Zero3EstimateQuestion["offload"], number> = {
    "optimizer and parameters": parameters * held(18),
    optimizer: parameters * held(16),
    none: (zeroInit ? largestLayerParameters : parameters) * loadedBytes,
  };
  return whole(deviceBytes[offload], hostBytes[offload] * bufferFactor);
}

const whole = (deviceBytes: number, hostBytes: number): PublishedEstimate => ({
  deviceBytes: Math.trunc(deviceBytes),
  hostBytes: Math.trunc(hostBytes),
});
