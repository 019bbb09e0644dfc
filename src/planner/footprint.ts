/**
 * A rank's footprint from a handful of numbers. Model states and communication are ZeRO's formulas (Rajbhandari et al., SC20,
 * sections 5 and 7) by residence, exact but for padding. Activations and buffers are those of a plan, scaled. It runs in a browser
 * too, for the page of the picture, so nothing here or in what it imports may need Node.
 */
import type { Stage } from "../config/types.ts";
import type { Tier } from "../device/ledger.ts";
import { type Offload, type Placement, placements } from "../plan/placement.ts";
import { type Place, placesOf, stageRows } from "../plan/residence.ts";
import type { Estimate } from "./estimate.ts";
import { type RankRoom, shortagesOf } from "./fit.ts";
import { commVolume, sentElements } from "./zero-formulas.ts";

export const stateKinds = ["parameters", "gradients", "optimizer"] as const;
export type StateKind = (typeof stateKinds)[number];

/** What one parameter costs at rest: 2, 2 and 12 bytes in 16-bit training with Adam. */
export type BytesPerParameter = Readonly<Record<StateKind, number>>;

export interface PlacedBytes extends Place {
  /** Of one rank. */
  readonly bytes: number;
}

export type PlacedStates = Readonly<Record<StateKind, PlacedBytes>>;

/** Where a rank holds which model states, and how many bytes of them. */
export function placedStates(
  placement: Placement,
  { parameters, ranks }: { readonly parameters: number; readonly ranks: number },
  bytesPerParameter: BytesPerParameter,
): PlacedStates {
  const places = placesOf(placement, stageRows[placement.stage]);
  const placed = (kind: StateKind): PlacedBytes => ({
    ...places[kind],
    bytes: (bytesPerParameter[kind] * parameters) / (places[kind].split === "shard" ? ranks : 1),
  });
  return { parameters: placed("parameters"), gradients: placed("gradients"), optimizer: placed("optimizer") };
}

/** Bytes of all model states that one tier holds. */
export const statesBytes = (states: PlacedStates, tier: Tier): number =>
  stateKinds.reduce((sum, kind) => sum + (states[kind].tier === tier ? states[kind].bytes : 0), 0);

/**
 * What a step of one micro-batch moves, in Ψ: gradients once in a reduce-scatter, and parameters in all-gathers, once after the
 * update, or twice (for the forward and the backward pass) where each rank holds a part of them.
 */
export const commInPsi = (stage: Stage): 2 | 3 => commVolume(stage, { parameters: 1 }) as 2 | 3;

/** Elements that a rank sends in such a step: the part of the others of each Ψ, (N - 1)/N of it. */
export const commElementsOf = (stage: Stage, parameters: number, ranks: number): number =>
  Math.round(sentElements(stage, { parameters }, ranks));

export interface FootprintJob {
  readonly parameters: number;
  readonly ranks: number;
  readonly microBatch: number;
  readonly sequenceLength: number;
}

/** A job whose footprint was computed, from which those of others are scaled. */
export interface PlannedFootprint {
  readonly job: FootprintJob;
  readonly bytesPerParameter: BytesPerParameter;
  /** Of that job. Where a placement is missing, another one's activations and buffers stand for it. */
  readonly estimates: readonly Estimate[];
}

/**
 * A model of the same proportions has its layers and its width each grow with the cube root of its parameters (12 layers × width²
 * of them are in the blocks): so both layers × width, which activations go with, and a layer's parameters, which buffers go with,
 * grow with their power of 2/3.
 */
const sizeRatio = (job: FootprintJob, planned: FootprintJob): number =>
  (job.parameters / planned.parameters) ** (2 / 3);

const tokensOf = ({ microBatch, sequenceLength }: FootprintJob): number => microBatch * sequenceLength;

const distance = (a: Placement, b: Placement): number =>
  4 * Number(a.stage !== b.stage) +
  2 * Number(a.offloadParam !== b.offloadParam) +
  Number(a.offloadOptimizer !== b.offloadOptimizer);

/** The planned estimate of that placement, or of the one most like it. */
function nearest(estimates: readonly Estimate[], placement: Placement): Estimate | undefined {
  return [...estimates].sort((a, b) => distance(a, placement) - distance(b, placement))[0];
}

/** At the planned job this is the plan's own estimate, less its padding. */
export function footprintOf(planned: PlannedFootprint, job: FootprintJob, placement: Placement): Estimate {
  const states = placedStates(placement, job, planned.bytesPerParameter);
  const onDevice = (kind: StateKind): number => (states[kind].tier === "device" ? states[kind].bytes : 0);
  const like = nearest(planned.estimates, placement);
  const size = sizeRatio(job, planned.job);
  const activationsBytes = ((like?.device.activationsBytes ?? 0) * size * tokensOf(job)) / tokensOf(planned.job);
  const buffersBytes = (like?.device.buffersBytes ?? 0) * size;
  return {
    ...placement,
    microBatch: job.microBatch,
    device: {
      parametersBytes: onDevice("parameters"),
      gradientsBytes: onDevice("gradients"),
      optimizerBytes: onDevice("optimizer"),
      activationsBytes,
      buffersBytes,
      totalBytes: statesBytes(states, "device") + activationsBytes + buffersBytes,
    },
    hostBytes: statesBytes(states, "host") + reducedBytes(states, job) + stagingBytes(planned, like, job) * size,
    diskBytes: statesBytes(states, "disk"),
    commElements: commElementsOf(placement.stage, job.parameters, job.ranks),
    parts: [],
  };
}

/** A rank's part of gradients that rest whole on the device crosses to an optimizer that is elsewhere, as shards do that rest on the host. */
const reducedBytes = ({ gradients, optimizer }: PlacedStates, { ranks }: Pick<FootprintJob, "ranks">): number =>
  gradients.tier === "device" && optimizer.tier !== "device" ? gradients.bytes / ranks : 0;

/**
 * What of a planned estimate's host memory is neither a model state nor a reduced gradient: pieces of a rank's shards on their way, so
 * more ranks have smaller ones.
 */
function stagingBytes(
  { job, bytesPerParameter }: PlannedFootprint,
  like: Estimate | undefined,
  { ranks }: Pick<FootprintJob, "ranks">,
): number {
  if (!like) return 0;
  const states = placedStates(like, job, bytesPerParameter);
  const planned = Math.max(0, like.hostBytes - statesBytes(states, "host") - reducedBytes(states, job));
  return (planned * job.ranks) / ranks;
}

/** All ways to place a job's states, in the order in which they are tried: the fewest offloads, then the smallest stage. */
export const footprintsOf = (planned: PlannedFootprint, job: FootprintJob): Estimate[] =>
  placements().map((placement) => footprintOf(planned, job, placement));

/** The first that fits. */
export const recommendationOf = (estimates: readonly Estimate[], room: RankRoom): Estimate | undefined =>
  estimates.find((estimate) => shortagesOf(estimate, room).length === 0);

const mostRanks = 2 ** 16;

/** The same job on twice, four times, ... as many ranks: the first number of them with which it fits somehow. */
export function fittingRanks(
  planned: PlannedFootprint,
  job: FootprintJob,
  room: RankRoom,
): (Estimate & { ranks: number }) | undefined {
  for (let ranks = job.ranks; ranks <= mostRanks; ranks *= 2) {
    const fits = recommendationOf(footprintsOf(planned, { ...job, ranks }), room);
    if (fits) return { ...fits, ranks };
  }
  return undefined;
}

/**
 * How a stage can be placed where so much offload is wanted: where parameters cannot leave the device the optimizer's states still
 * may, and where those cannot either, all stays.
 */
export function placementAt(stage: Stage, { offloadOptimizer, offloadParam }: Offload): Placement {
  const ways = placements().filter((placement) => placement.stage === stage);
  const way = (optimizer: Placement["offloadOptimizer"], param: Placement["offloadParam"]): Placement | undefined =>
    ways.find((placement) => placement.offloadOptimizer === optimizer && placement.offloadParam === param);
  return way(offloadOptimizer, offloadParam) ?? way(offloadOptimizer, "none") ?? way("none", "none")!;
}
