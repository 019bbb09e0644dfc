/**
 * Estimates by Shunya's own engine: a forecast of the job on the simulated device. Where only a number of parameters is known, the
 * shape is a GPT of about that size: its states are scaled to the number, all else is the shape's.
 */
import type { ResolvedConfig } from "../config/types.ts";
import { tiers } from "../device/ledger.ts";
import type { Costs } from "../device/simulated.ts";
import type { TimelineSink } from "../device/timeline.ts";
import type { LanguageBatch } from "../nn/models/language-model.ts";
import { createModel, type ModelConfig } from "../nn/models/models.ts";
import { type ExpectedStates, expectedStates } from "../plan/expected.ts";
import type { Placement } from "../plan/placement.ts";
import type { Plan } from "../plan/plan.ts";
import { type Forecast, forecast } from "../zero/forecast.ts";
import type { DeviceBytes, Estimate, EstimatePart } from "./estimate.ts";
import type { BatchSplit } from "./settings.ts";
import { sentElements } from "./zero-formulas.ts";

export interface EngineJob {
  readonly model: ModelConfig;
  /** Parameters that were stated, where the model only stands for their number; undefined: the model is meant as it is. */
  readonly statedParameters: number | undefined;
  readonly seqLength: number;
  /** Of a rank's compute queue. */
  readonly threads: number;
  /** Undefined where a configuration rules the placement out. */
  readonly configOf: (placement: Placement, batch: BatchSplit) => ResolvedConfig | undefined;
}

export interface EngineEstimate extends Estimate {
  readonly foretold: Forecast;
  /** Of the most bytes in device and host memory together. */
  readonly togetherBytes: number;
}

/** Kinds of the ledger that are buffers to a plan. */
const bufferKinds = ["gathered", "buckets", "staging", "scratch", "other"] as const;

/** Of a micro-batch: what no device has room for anyway. */
export const mostTokens = 2 ** 28;

export interface TimedRun {
  readonly costs: Costs;
  readonly sink?: TimelineSink;
}

/** Undefined where a configuration rules the placement out, and for more than `mostTokens`. */
export async function estimateByEngine(
  job: EngineJob,
  placement: Placement,
  batch: BatchSplit,
  timed?: TimedRun,
): Promise<EngineEstimate | undefined> {
  const config = job.configOf(placement, batch);
  if (!config || batch.microBatch * job.seqLength > mostTokens) return undefined;
  const shape = [batch.microBatch, job.seqLength];
  const data = new Int32Array(batch.microBatch * job.seqLength);
  const foretold = await forecast<LanguageBatch>({
    model: createModel(job.model),
    config,
    threads: job.threads,
    batch: { inputs: { data, shape }, targets: { data, shape } },
    ...timed,
  });
  const { plan, report, highest } = foretold;
  const stated = (laidOut: ExpectedStates): StatedStates =>
    statedStates(laidOut, job.statedParameters, plan.parameterElements);
  const onDevice = stated(expectedStates(plan, "device"));
  const onHost = stated(expectedStates(plan, "host"));
  const onDisk = stated(expectedStates(plan, "disk"));
  const { reduceScatter, allGather, broadcast } = report.traffic;
  const sent = reduceScatter.elementsSent + allGather.elementsSent + broadcast.elementsSent;
  return {
    ...placement,
    microBatch: batch.microBatch,
    device: deviceBytes(onDevice, foretold),
    hostBytes: highest.host.bytes + onHost.addedBytes,
    diskBytes: highest.disk.bytes + onDisk.addedBytes,
    togetherBytes: foretold.highestInMemory + onDevice.addedBytes + onHost.addedBytes,
    commElements: job.statedParameters === undefined ? sent : statedTraffic(job.statedParameters, plan),
    parts: [...stateParts(plan, job.statedParameters), ...bufferParts(foretold)],
    foretold,
  };
}

/** States by the formulas that they follow. */
function stateParts(plan: Plan, stated: number | undefined): EstimatePart[] {
  const psi = stated ?? plan.parameterElements;
  const numbers = `psi = ${psi}, N = ${plan.worldSize}`;
  return tiers.flatMap((tier) => {
    const states = expectedStates(plan, tier);
    return (["parameters", "gradients", "optimizer"] as const)
      .filter((kind) => states[kind].bytes > 0)
      .map((kind) => {
        const { formula, formulaBytes, bytes } = states[kind];
        const exact = stated === undefined ? bytes : Math.round((formulaBytes * stated) / plan.parameterElements);
        const padding = stated === undefined ? bytes - formulaBytes : 0;
        const padded = padding > 0 ? `, and ${Math.round(padding)} of padding` : "";
        return { name: `${kind} (${tier})`, bytes: exact, why: `${formula} bytes, ${numbers}${padded}` };
      });
  });
}

/** What else is there at the fullest moment of each memory, as the engine's ledger has it. */
const bufferParts = ({ highest }: Forecast): EstimatePart[] =>
  (["device", "host"] as const).flatMap((tier) =>
    (["activations", ...bufferKinds] as const)
      .filter((kind) => highest[tier].byKind[kind] > 0)
      .map((kind) => ({
        name: `${kind} (${tier})`,
        bytes: highest[tier].byKind[kind],
        why: "the ledger at the fullest moment of the simulated step",
      })),
  );

/** By the formula: padding and persistent parameters are those of the shape, not of the number. */
function statedTraffic(parameters: number, { config, trainableElements, parameterElements }: Plan): number {
  const { stage, worldSize, gradientAccumulation: accumulation } = config;
  const trainable = Math.round((parameters * trainableElements) / parameterElements);
  return Math.round(sentElements(stage, { parameters, trainable, accumulation }, worldSize));
}

interface StatedStates {
  readonly parametersBytes: number;
  readonly gradientsBytes: number;
  readonly optimizerBytes: number;
  /** What the number of parameters adds to what the laid-out shape takes. */
  readonly addedBytes: number;
}

/** With a stated number the formulas' values for it, without padding; else what the plan allocates. */
function statedStates(laidOut: ExpectedStates, stated: number | undefined, parameterElements: number): StatedStates {
  const scale = stated === undefined ? 1 : stated / parameterElements;
  const bytesOf = (kind: keyof ExpectedStates): number =>
    stated === undefined ? laidOut[kind].bytes : Math.round(laidOut[kind].formulaBytes * scale);
  const [parametersBytes, gradientsBytes, optimizerBytes] = [
    bytesOf("parameters"),
    bytesOf("gradients"),
    bytesOf("optimizer"),
  ];
  const allocated = laidOut.parameters.bytes + laidOut.gradients.bytes + laidOut.optimizer.bytes;
  const addedBytes = parametersBytes + gradientsBytes + optimizerBytes - allocated;
  return { parametersBytes, gradientsBytes, optimizerBytes, addedBytes };
}

function deviceBytes(states: StatedStates, { highest }: Forecast): DeviceBytes {
  const { bytes, byKind } = highest.device;
  const { parametersBytes, gradientsBytes, optimizerBytes } = states;
  const activationsBytes = byKind.activations;
  const buffersBytes = bufferKinds.reduce((sum, kind) => sum + byKind[kind], 0);
  const totalBytes = bytes + states.addedBytes;
  return {
    parametersBytes,
    gradientsBytes,
    optimizerBytes,
    activationsBytes,
    // What of the states is not at rest (a second copy for a moment) is a buffer too: the parts add up to the total.
    buffersBytes:
      buffersBytes + totalBytes - parametersBytes - gradientsBytes - optimizerBytes - activationsBytes - buffersBytes,
    totalBytes,
  };
}
