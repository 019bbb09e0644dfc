/** What hurts in a configuration that works, and what to change. */
import type { ConfigProblem } from "../errors/errors.ts";
import type { Placement } from "../plan/placement.ts";
import { bucketSizes } from "../planner/buckets.ts";
import type { Estimate } from "../planner/estimate.ts";
import { parametersOf, type Subject } from "../planner/explained.ts";
import { deviceAllowance, type RankRoom } from "../planner/fit.ts";
import type { SmallestChange } from "../planner/smallest-change.ts";
import { formatElements } from "./explain-text.ts";
import { formatBytes, formatCount } from "./numbers.ts";
import { offloadName } from "./placement-name.ts";

export interface AdviceLine {
  /** DeepSpeed's path of the key that it is about. */
  readonly path: string;
  /** Undefined: not in the file. */
  readonly line: number | undefined;
  readonly says: string;
}

/** Where the job could be placed instead, and what was allowed on a device. */
export interface Leaner {
  readonly estimate: Estimate;
  readonly room: RankRoom;
}

/** A job that the device has no room for, and the smallest change that fits, if one does. */
export interface Misfit {
  readonly estimate: Estimate;
  readonly room: RankRoom;
  readonly change: SmallestChange | undefined;
}

/** What does not fit comes first; then warnings of the reader, as `shunya config` has them, then what only the plan knows. */
export function adviceLines(
  subject: Subject,
  problems: readonly ConfigProblem[],
  { leaner, misfit }: { leaner: Leaner | undefined; misfit: Misfit | undefined },
): AdviceLine[] {
  const warned = problems.map(({ path, line, message }) => ({ path, line, says: message }));
  const line = (path: string): number | undefined => subject.config.places.get(path)?.line;
  const isWarned = (path: string): boolean => problems.some((problem) => problem.path === path);
  const own = [
    ...bucketAdvice(subject),
    ...reuseAdvice(subject),
    ...ratioAdvice(subject),
    ...accumulationAdvice(subject),
    ...leanerAdvice(subject, leaner),
  ];
  return [
    ...misfitAdvice(misfit).map(([path, says]) => ({ path, line: line(path), says })),
    ...warned,
    ...own.filter(([path]) => !isWarned(path)).map(([path, says]) => ({ path, line: line(path), says })),
  ];
}

type Advice = readonly [path: string, says: string];

function misfitAdvice(misfit: Misfit | undefined): Advice[] {
  if (misfit === undefined) return [];
  const { estimate, room, change } = misfit;
  const takes =
    `this job does not fit: by the estimate of DeepSpeed on PyTorch it takes ${formatBytes(estimate.device.totalBytes)} of a device, ` +
    `where ${formatBytes(deviceAllowance(room))} may be taken, and ${formatBytes(estimate.hostBytes)} of host memory a rank`;
  if (change === undefined)
    return [["zero_optimization", `${takes}; no stage or offload makes it fit: more ranks, or shorter sequences`]];
  const { placement, microBatch, gradientAccumulation, checkpointing } = change;
  const recompute = checkpointing ? ", activation checkpointing" : "";
  const fits =
    `stage ${placement.stage} ${offloadName(placement)}, micro-batch ${formatCount(microBatch)}, accumulation ` +
    `${formatCount(gradientAccumulation)}${recompute} takes ${formatBytes(change.estimate.device.totalBytes)} and fits`;
  return [["zero_optimization", `${takes}; ${fits}`]];
}

/** Written buckets that hold more than there is: DeepSpeed obeys them literally. */
function bucketAdvice(subject: Subject): Advice[] {
  const psi = parametersOf(subject);
  if (psi === undefined || subject.config.stage === 0) return [];
  const isSharded = subject.plan.residences.parameters.split === "shard";
  const buffers = ["reduceBucket", ...(isSharded ? ["prefetch"] : ["allgatherBucket"])];
  return bucketSizes(subject)
    .filter(({ name, writtenElements }) => buffers.includes(name) && (writtenElements ?? 0) > psi)
    .map(({ name, path, writtenElements = 0, type }) => {
      const bytes = formatBytes(writtenElements * (type === "f32" ? 4 : 2));
      const costs: Readonly<Record<string, string>> = {
        reduceBucket: `nothing is sent before the backward pass is over, so nothing overlaps, and DeepSpeed allocates ${bytes} all the same`,
        prefetch: "the whole model is gathered ahead, and stage 3 saves no memory in a pass",
        allgatherBucket: "all is gathered in one piece, so nothing overlaps",
      };
      return [
        path,
        `${formatElements(writtenElements)} elements, and the whole model has ${formatCount(psi)}: ${costs[name]}; write less than a quarter of the model, such as ${formatElements(roundDown(psi / 8))}`,
      ];
    });
}

/** DeepSpeed's own default, so that many files have it without a thought. */
function reuseAdvice(subject: Subject): Advice[] {
  const psi = parametersOf(subject);
  const { path, writtenElements = 0 } = bucketSizes(subject).find(({ name }) => name === "reuseDistance")!;
  if (psi === undefined || writtenElements < 2 * psi || subject.plan.residences.parameters.split === "whole") return [];
  return [
    [
      path,
      `${formatElements(writtenElements)} elements, and the whole model has ${formatCount(psi)}: once gathered nothing is released before its backward pass, so a pass holds as many parameters as at stage 2 (it saves the second gather: 2 psi sent in place of 3 psi); where memory is short write 0`,
    ],
  ];
}

/** The first digit alone: 15,554,976 becomes 10,000,000. */
function roundDown(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return Math.floor(value / power) * power;
}

/** A ratio counts sub-groups, so one sub-group cannot be divided. */
function ratioAdvice(subject: Subject): Advice[] {
  const { config } = subject;
  const psi = parametersOf(subject);
  if (config.offloadRatio === 1 || config.offloadOptimizer === "none" || psi === undefined) return [];
  const { writtenElements, deepSpeedElements } = bucketSizes(subject).find(({ name }) => name === "subGroup")!;
  const shard = psi / config.worldSize;
  if (deepSpeedElements < shard) return [];
  const whose = writtenElements === undefined ? "DeepSpeed's default sub_group_size of" : "a sub_group_size of";
  return [
    [
      "zero_optimization.offload_optimizer.ratio",
      `${config.offloadRatio} of the sub-groups, and ${whose} ${formatElements(deepSpeedElements)} makes one of a rank's ${formatCount(shard)} elements: it cannot be divided, so all is offloaded; write sub_group_size ${formatElements(roundDown(shard / 10))}`,
    ],
  ];
}

/** bf16 has 8 bits of fraction: what is smaller than 1/256 of a sum vanishes in it. */
function accumulationAdvice({ config }: Subject): Advice[] {
  const { gradientAccumulation, gradientAccumulationType: type } = config;
  if (type !== "bf16" || gradientAccumulation === 1) return [];
  return [
    [
      "gradient_accumulation_steps",
      `the gradients of ${gradientAccumulation} micro-batches are added in bf16, which keeps 8 bits of fraction; write "data_types": { "grad_accum_dtype": "fp32" } (2 bytes more for each gradient that a rank keeps)`,
    ],
  ];
}

function leanerAdvice({ config }: Subject, leaner: Leaner | undefined): Advice[] {
  if (leaner === undefined) return [];
  const { estimate, room } = leaner;
  const { offloadOptimizer, offloadParam, stage } = config;
  const isSamePlace = estimate.offloadOptimizer === offloadOptimizer && estimate.offloadParam === offloadParam;
  // Less sharding without less offload is no gain but at stage 3, which sends more than the others.
  if (isSamePlace && stage !== 3) return [];
  const path = isSamePlace ? "zero_optimization.stage" : "zero_optimization.offload_optimizer.device";
  const isParameters = offloadOptimizer === "none";
  const there = `stage ${estimate.stage} ${offloadName(estimate)} takes ${formatBytes(estimate.device.totalBytes)} of a device at its fullest moment (an estimate of DeepSpeed on PyTorch, micro-batch ${formatCount(estimate.microBatch)}), and ${formatBytes(deviceAllowance(room))} of the ${formatBytes(room.deviceBytes)} may be taken`;
  return [
    [
      isParameters && !isSamePlace ? "zero_optimization.offload_param.device" : path,
      isSamePlace
        ? `stage 3 is not needed: ${there}. Stage 3 gathers parameters twice a micro-batch, 3 psi sent in place of 2 psi; write "stage": ${estimate.stage}`
        : `this offload is not needed: ${there}. What is offloaded crosses the host's link in every step; write ${changeWords(estimate)}`,
    ],
  ];
}

function changeWords({ stage, offloadOptimizer, offloadParam }: Placement): string {
  return `"stage": ${stage}, offload_optimizer.device "${offloadOptimizer}", offload_param.device "${offloadParam}"`;
}

export const renderAdvice = ({ path, line, says }: AdviceLine): string =>
  `${line === undefined ? "" : `line ${line}: `}${path}: ${says}.`;
