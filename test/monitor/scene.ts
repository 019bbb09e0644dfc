/** A tiny job foretold, and records of its steps, for tests of what is reported. */
import type { ReportingConfig, ResolvedConfig } from "../../src/config/types.ts";
import { Gpt2 } from "../../src/nn/models/gpt2.ts";
import { type Forecast, forecast } from "../../src/zero/forecast.ts";
import type { StepRecord } from "../../src/zero/record.ts";

export const quiet: ReportingConfig = {
  stepsPerPrint: 10,
  wallClockBreakdown: false,
  memoryBreakdown: false,
  dumpState: false,
  commsLogger: undefined,
  flopsProfiler: undefined,
  csvMonitor: undefined,
  tensorboard: undefined,
};

const config: ResolvedConfig = {
  stage: 2,
  offloadOptimizer: "none",
  offloadParam: "none",
  offloadRatio: 1,
  delayedUpdateFrom: undefined,
  pinMemory: { optimizer: false, parameters: false },
  disk: {
    folders: [],
    blockBytes: 2 ** 20,
    queueDepth: 8,
    parallelism: 1,
    verify: true,
    stateBuffers: 4,
    pipelineRead: true,
    pipelineWrite: true,
    parameterBuffers: 5,
    parameterBufferElements: undefined,
    parametersInHost: 0,
  },
  precision: "fp32",
  lossScale: undefined,
  skipsOverflow: false,
  worldSize: 2,
  trainBatch: 12,
  microBatch: 2,
  gradientAccumulation: 3,
  gradientClipping: 1,
  gradientAccumulationType: "fp32",
  gradientReduction: { type: "fp32", operation: "mean", divideBefore: 1 },
  optimizer: {
    type: "AdamW",
    learningRate: 1e-3,
    weightDecay: 0,
    beta1: 0.9,
    beta2: 0.999,
    epsilon: 1e-8,
    biasCorrection: true,
  },
  parameterGroups: [],
  freeze: [],
  lora: undefined,
  schedule: undefined,
  sizes: {
    reduceBucketSize: undefined,
    allgatherBucketSize: undefined,
    prefetchBucketSize: undefined,
    paramPersistenceThreshold: undefined,
    maxLiveParameters: undefined,
    maxReuseDistance: undefined,
    subGroupSize: undefined,
  },
  overlapComm: true,
  activationCheckpointing: false,
  reporting: quiet,
  sources: new Map([
    ["zero_optimization.stage", "file"],
    ["fp16.enabled", "default"],
  ]),
};

export async function foretell(
  reporting: Partial<ReportingConfig>,
  changes: Partial<ResolvedConfig> = {},
): Promise<Forecast> {
  const model = new Gpt2({
    vocabularySize: 64,
    positions: 16,
    hidden: 16,
    layers: 2,
    heads: 2,
    layerNormEpsilon: 1e-5,
    initializerRange: 0.02,
    embeddingDropout: 0,
    attentionDropout: 0,
    residualDropout: 0,
    tied: true,
  });
  const tokens = { data: new Int32Array(32), shape: [2, 16] };
  return forecast({
    model,
    config: { ...config, ...changes, reporting: { ...quiet, ...reporting } },
    threads: 1,
    batch: { inputs: tokens, targets: tokens },
  });
}

/** What the ranks would report of step `step`, which took 0.2 s. */
export const recordOf = (foretold: Forecast, step: number, changes: Partial<StepRecord> = {}): StepRecord => ({
  step,
  loss: 4 - step / 10,
  targets: 64,
  gradNorm: 0.5,
  learningRate: 1e-3,
  lossScale: 1,
  skipped: false,
  reason: undefined,
  seconds: 0.2,
  phaseSeconds: { forward: 0.05, backward: 0.1, step: 0.03 },
  ranks: [foretold.report, foretold.report],
  ...changes,
});
