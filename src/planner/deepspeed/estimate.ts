/** The estimate: states at rest, and the fullest moment of a step. */
import type { DeepSpeedEstimate, DeepSpeedQuestion } from "./question.ts";
import { statesOnDevice } from "./states.ts";

/** States only so far: activations, buffers, host and disk follow behind the same signature. */
export function estimateDeepSpeed(question: DeepSpeedQuestion): DeepSpeedEstimate {
  const states = statesOnDevice(question);
  const totalBytes = states.parametersBytes + states.gradientsBytes + states.optimizerBytes;
  return {
    ...question.placement,
    microBatch: question.microBatch,
    device: { ...states, activationsBytes: 0, buffersBytes: 0, totalBytes },
    hostBytes: 0,
    diskBytes: 0,
    commElements: 0,
    allocatedBytes: totalBytes,
    peakBytes: totalBytes,
    reservedBytes: totalBytes,
    contextBytes: 0,
    parts: [],
  };
}
