/** What is said of one way to place a job's model states, whichever engine is to run it. All bytes are of one rank unless they say otherwise. */
import type { Placement } from "../plan/placement.ts";
import type { BatchSplit } from "./settings.ts";

export interface DeviceBytes {
  readonly parametersBytes: number;
  readonly gradientsBytes: number;
  readonly optimizerBytes: number;
  /** At the fullest moment. */
  readonly activationsBytes: number;
  /** Gathered parameters, gradient buckets, staging, scratch and everything else, at the fullest moment. */
  readonly buffersBytes: number;
  /** The fullest moment: the sum of the above. */
  readonly totalBytes: number;
}

/** A term: what, how much, and the formula with its numbers. */
export interface EstimatePart {
  readonly name: string;
  readonly bytes: number;
  readonly why: string;
}

export interface Estimate extends Placement {
  readonly microBatch: number;
  readonly device: DeviceBytes;
  readonly hostBytes: number;
  readonly diskBytes: number;
  /** Elements that a rank sends in a step. */
  readonly commElements: number;
  /** The terms that this is made of. */
  readonly parts: readonly EstimatePart[];
}

/** Model states on the device. */
export const modelStatesBytes = ({ parametersBytes, gradientsBytes, optimizerBytes }: DeviceBytes): number =>
  parametersBytes + gradientsBytes + optimizerBytes;

/** What an engine says of a placement; undefined where a configuration rules it out. */
export type EstimateOf = (placement: Placement, batch: BatchSplit) => Promise<Estimate | undefined>;
