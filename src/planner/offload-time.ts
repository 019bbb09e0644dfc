/**
 * How long a step takes whose optimizer is on the host (ZeRO-Offload, Ren et al., ATC21, sections 3 to 5), as four legs that take
 * turns or run beside each other. They know no latency and no ranks that wait: a lower bound, which `simulate` makes precise.
 */

/** Seconds for 10^9 parameters that the paper's CPU-Adam takes for 1, 2, 4 and 10 billion (Table 4): 0.22 to 0.26. */
export const cpuAdamSeconds = { fast: 0.22, slow: 0.26 } as const;

export interface OffloadJob {
  readonly parameters: number;
  /** Of one rank in one step. */
  readonly tokens: number;
  readonly ranks: number;
  /** Nodes: the ranks of one share its host, so that its update is not faster for being shared. */
  readonly hosts: number;
}

export interface OffloadRates {
  /** What a device reaches in a step. */
  readonly operationsPerSecond: number;
  /** Of each rank's link to its host, in each direction; both at once. */
  readonly linkBytesPerSecond: number;
  /** Of a host, for 10^9 parameters. */
  readonly updateSecondsPerBillion: number;
}

/** Seconds of each part of a step. */
export interface OffloadLegs {
  /** Forward and backward. */
  readonly compute: number;
  /** Gradients to the host. */
  readonly down: number;
  readonly update: number;
  /** Parameters to the device. */
  readonly up: number;
}

/** 2 operations for a parameter and token forward, and twice that backward. */
const operations = 6;
const forwardShare = 1 / 3;
const backwardShare = 2 / 3;
/** Bytes of a parameter, and of a gradient. */
const halfBytes = 2;

/** 2Ψ/N bytes down and as many up: 4Ψ together. Gradients cross once in a step. */
export function offloadLegs({ parameters, tokens, ranks, hosts }: OffloadJob, rates: OffloadRates): OffloadLegs {
  const transfer = (halfBytes * parameters) / ranks / rates.linkBytesPerSecond;
  return {
    compute: tokens * secondsPerToken(parameters, rates),
    down: transfer,
    update: ((parameters / 1e9) * rates.updateSecondsPerBillion) / hosts,
    up: transfer,
  };
}

const secondsPerToken = (parameters: number, { operationsPerSecond }: OffloadRates): number =>
  (operations * parameters) / operationsPerSecond;

/**
 * - serial: one leg after the other.
 * - overlapped: gradients go down beside the backward pass that makes them, and parameters up beside the update.
 * - earlyForward: units are updated and go up in the order of the next forward pass, which runs beside that.
 * - delayed: the update works on the gradients of the step before, so that nothing waits for it.
 */
export type OffloadSchedule = "serial" | "overlapped" | "earlyForward" | "delayed";

export const offloadSchedules: readonly OffloadSchedule[] = ["serial", "overlapped", "earlyForward", "delayed"];

/** Seconds of a step by each schedule. */
export function offloadStepSeconds({ compute, down, update, up }: OffloadLegs): Record<OffloadSchedule, number> {
  const forward = forwardShare * compute;
  const backward = Math.max(backwardShare * compute, down);
  return {
    serial: compute + down + update + up,
    overlapped: forward + backward + Math.max(update, up),
    earlyForward: backward + Math.max(forward, update, up),
    delayed: Math.max(compute, down, update, up),
  };
}

/** Tokens of a rank and step from which on something is hidden. */
export interface HidingTokens {
  /** A transfer in one direction is no longer than all of the compute. */
  readonly transfer: number;
  /** Gradients are hidden by the backward pass; the update still is not. */
  readonly overlapped: number;
  /** A step takes no longer than its compute. */
  readonly earlyForward: number;
  /** The same. */
  readonly delayed: number;
}

export function hidingTokens(
  parameters: number,
  legs: Omit<OffloadLegs, "compute">,
  rates: OffloadRates,
): HidingTokens {
  const { down, update, up } = legs;
  const tokens = (seconds: number): number => seconds / secondsPerToken(parameters, rates);
  return {
    transfer: tokens(Math.max(down, up)),
    overlapped: tokens(down / backwardShare),
    earlyForward: tokens(Math.max(down / backwardShare, update / forwardShare, up / forwardShare)),
    delayed: tokens(Math.max(down, update, up)),
  };
}

/** Micro-batches of `computeSeconds` each that a step needs so that its compute is as long as `seconds` of something it does once. */
export const accumulationThatHides = (seconds: number, computeSeconds: number): number =>
  Math.max(1, Math.ceil(seconds / computeSeconds));
