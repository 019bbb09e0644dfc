/**
 * ZeRO's formulas (Rajbhandari et al., SC20, sections 5 and 7; Tables 1 and 2) for 16-bit training: bytes of model states on a rank,
 * elements that it sends, and the largest model that states alone leave room for. They know no padding, activations and buffers; what
 * a job of this engine really holds and sends is in its forecast.
 */
import type { Stage } from "../config/types.ts";
import { type SplitRow, stageRows } from "../plan/residence.ts";

/** Bytes of a parameter or gradient in 16 bits. */
const halfBytes = 2;

/** Adam's optimizer states for a parameter: an fp32 master copy and two fp32 moments. Lion and SGD with momentum have 8, SGD 4. */
export const adamBytes = 12;

/** Bytes of model states on a rank, for each parameter of the model. @param optimizerBytes K in the paper */
export function bytesPerParameter(stage: Stage, ranks: number, optimizerBytes: number = adamBytes): number {
  const row = rowOf(stage);
  wholeNumber("ranks", ranks);
  if (!Number.isFinite(optimizerBytes) || optimizerBytes < 0)
    throw new RangeError(`optimizer bytes per parameter must be a number of at least 0, not ${optimizerBytes}`);
  const share = (kind: keyof SplitRow): number => (row[kind] === "whole" ? 1 : 1 / ranks);
  return halfBytes * share("parameters") + halfBytes * share("gradients") + optimizerBytes * share("optimizer");
}

/**
 * Model states on a rank in GB (10^9 bytes): 16Ψ, 4Ψ + KΨ/N, 2Ψ + (2 + K)Ψ/N and (4 + K)Ψ/N at stages 0 to 3.
 * @param psi parameters of the model
 * @param K bytes of optimizer states for a parameter
 * @throws RangeError
 */
export function zeroStageMemory(psi: number, ranks: number, stage: number, K: number = adamBytes): number {
  const bytes = bytesPerParameter(stage as Stage, ranks, K);
  aboveZero("parameters", psi);
  return (bytes * psi) / 1e9;
}

/** Parameters of the largest model whose states fit in so many bytes of each rank. @throws RangeError */
export function largestByStates(deviceBytes: number, ranks: number, stage: Stage, K: number = adamBytes): number {
  aboveZero("device memory", deviceBytes);
  return deviceBytes / bytesPerParameter(stage, ranks, K);
}

export interface StepTraffic {
  readonly parameters: number;
  /** Left out: all of them. */
  readonly trainable?: number | undefined;
  /** Micro-batches of a step. */
  readonly accumulation?: number | undefined;
}

/**
 * Elements that all-gathers and reduce-scatters of a step carry for a rank, its own parts included: 2Ψ, 2Ψ, 2Ψ and 3Ψ with one
 * micro-batch. Gradients that rest in shards are reduced once for each micro-batch, parameters that do are gathered twice for each.
 * @throws RangeError
 */
export function commVolume(
  stage: Stage,
  { parameters, trainable = parameters, accumulation = 1 }: StepTraffic,
): number {
  const row = rowOf(stage);
  aboveZero("parameters", parameters);
  wholeNumber("accumulation", accumulation);
  const reductions = row.gradients === "shard" ? accumulation : 1;
  const gathered = row.parameters === "shard" ? 2 * accumulation * parameters : trainable;
  return reductions * trainable + gathered;
}

/** Elements that a rank sends in a step: (N - 1)/N of the volume, since its own part stays. @throws RangeError */
export function sentElements(stage: Stage, traffic: StepTraffic, ranks: number): number {
  wholeNumber("ranks", ranks);
  return (commVolume(stage, traffic) * (ranks - 1)) / ranks;
}

function rowOf(stage: Stage): SplitRow {
  if (!Object.hasOwn(stageRows, stage)) throw new RangeError("stage must be 0-3");
  return stageRows[stage];
}

function aboveZero(what: string, value: number): void {
  if (!Number.isFinite(value) || value <= 0) throw new RangeError(`${what} must be a number above 0, not ${value}`);
}

function wholeNumber(what: string, value: number): void {
  if (!Number.isInteger(value) || value < 1)
    throw new RangeError(`${what} must be a whole number of at least 1, not ${value}`);
}
