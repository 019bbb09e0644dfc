/** The answer to "what fits, and what does it cost": the stages side by side, what is recommended, and where nothing fits what would. */
import type { OffloadDevice, Stage } from "../config/types.ts";
import { UsageError } from "../errors/errors.ts";
import { type Placement, placements } from "../plan/placement.ts";
import type { Estimate } from "./estimate.ts";
import { deviceAllowance, headroomBytes, type RankRoom, type Shortage, shortagesOf } from "./fit.ts";
import { placementAt } from "./footprint.ts";
import { type BatchChoice, batchChoice, type Recommendation, recommend, type Weighed } from "./recommend.ts";
import type { BatchSplit } from "./settings.ts";
import type { StepTime } from "./step-time.ts";
import { type PlanSubject, type Variant, wholeNodes } from "./subject.ts";

/** One way to run the job. */
export interface PlanRow {
  readonly placement: Placement;
  readonly batch: BatchSplit;
  readonly estimate: Estimate;
  readonly short: readonly Shortage[];
  readonly headroomBytes: number;
  readonly time: StepTime | undefined;
}

export interface PlanAnswer {
  readonly subject: PlanSubject;
  readonly room: RankRoom;
  /** Stages 0 to 3 with the offloads that were asked for, as far as a stage allows them. */
  readonly stages: readonly PlanRow[];
  readonly tried: readonly Weighed[];
  /** Undefined: nothing fits. */
  readonly recommended: PlanRow | undefined;
  /** Where the batch is given and its undivided part of a rank does not fit: the ways to divide it at the asked placement. */
  readonly splits: readonly PlanRow[];
  /** Where nothing fits: changes with which something does; where something must be offloaded: checkpointing, if that does without. */
  readonly remedies: readonly Remedy[];
}

/** A change and what then fits. */
export interface Remedy {
  readonly change: "checkpointing" | "seqLength" | "ranks";
  readonly variant: Variant;
  readonly placement: Placement;
}

/** The offloads of a configuration that was given. */
export interface AskedPlacement {
  readonly stage: Stage | undefined;
  readonly offloadOptimizer: OffloadDevice;
  readonly offloadParam: OffloadDevice;
}

const allStages: readonly Stage[] = [0, 1, 2, 3];

/** @throws UsageError where the batch cannot be divided over the ranks */
export async function answerPlan(subject: PlanSubject, asked: AskedPlacement): Promise<PlanAnswer> {
  const variant = subject.asked;
  const room = subject.roomOf(variant);
  const choice = choiceOf(subject);
  const compared = comparedSplit(subject, choice);
  const stages: PlanRow[] = [];
  for (const stage of allStages) {
    const row = await rowOf(subject, room, placementAt(stage, asked), compared);
    if (row) stages.push(row);
  }
  const found = await recommend(subject.estimateOf(variant), room, choice);
  const recommended = "placement" in found ? await rowOf(subject, room, found.placement, found.batch) : undefined;
  return {
    subject,
    room,
    stages,
    tried: found.tried,
    recommended,
    splits: await splitsOf(subject, room, asked, choice),
    remedies: recommended
      ? await withoutOffload(subject, recommended.placement)
      : await remediesOf(subject, openIn(found.tried, room)),
  };
}

function choiceOf({ asked, trainBatch }: PlanSubject): BatchChoice {
  if (trainBatch === undefined) return batchChoice(undefined);
  if (trainBatch % asked.ranks !== 0)
    throw new UsageError(
      `--batch ${trainBatch}: a step's sequences are divided over ${asked.ranks} ranks; wanted a multiple of ${asked.ranks}`,
    );
  return batchChoice(trainBatch / asked.ranks);
}

/** Stages are compared at the asked micro-batch, or at the least. */
function comparedSplit({ microBatch }: PlanSubject, { splits }: BatchChoice): BatchSplit {
  if (microBatch === undefined) return splits[0]!;
  return splits.find((split) => split.microBatch === microBatch) ?? { microBatch, gradientAccumulation: 1 };
}

async function rowOf(
  subject: PlanSubject,
  room: RankRoom,
  placement: Placement,
  batch: BatchSplit,
): Promise<PlanRow | undefined> {
  const timed = await subject.timeOf?.(subject.asked, placement, batch);
  const estimate = timed?.estimate ?? (await subject.estimateOf(subject.asked)(placement, batch));
  if (!estimate) return undefined;
  return {
    placement,
    batch,
    estimate,
    short: shortagesOf(estimate, room),
    headroomBytes: headroomBytes(estimate, room),
    time: timed?.time,
  };
}

/** Of a batch that was given, at the placement that was given: the undivided part of a rank first. */
async function splitsOf(
  subject: PlanSubject,
  room: RankRoom,
  { stage, ...offloads }: AskedPlacement,
  { splits }: BatchChoice,
): Promise<PlanRow[]> {
  if (subject.trainBatch === undefined || stage === undefined) return [];
  const rows: PlanRow[] = [];
  for (const split of [...splits].reverse()) {
    const row = await rowOf(subject, room, placementAt(stage, offloads), split);
    if (row) rows.push(row);
  }
  return rows;
}

/** Shorter sequences than that are another job. */
const leastSeqLength = 128;
const mostRanks = 4096;

/**
 * Placements that fewer activations can make fit: what else they hold is short of nothing. The others need no second look, and each look
 * at a large model takes its time.
 */
function openIn(tried: readonly Weighed[], room: RankRoom): Placement[] {
  const isOpen = ({ estimate }: Weighed): boolean => {
    const { parametersBytes, gradientsBytes, optimizerBytes } = estimate.device;
    const totalBytes = parametersBytes + gradientsBytes + optimizerBytes;
    return shortagesOf({ ...estimate, device: { ...estimate.device, totalBytes } }, room).length === 0;
  };
  return tried.filter(isOpen).map(({ placement }) => placement);
}

/** @param open placements at the asked ranks that fewer activations can make fit */
async function remediesOf(subject: PlanSubject, open: readonly Placement[]): Promise<Remedy[]> {
  const { asked } = subject;
  const remedies: Remedy[] = [];
  const firstThatFits = async (change: Remedy["change"], variants: readonly Variant[]): Promise<void> => {
    const last = variants.at(-1);
    const among = change === "ranks" ? placements() : open;
    if (!last || !(await whatFits(subject, last, among))) return; // nor does anything less
    for (const variant of variants) {
      const placement = await whatFits(subject, variant, among);
      if (!placement) continue;
      remedies.push({ change, variant, placement });
      return;
    }
  };
  if (!asked.checkpointing) await firstThatFits("checkpointing", [{ ...asked, checkpointing: true }]);
  await firstThatFits(
    "seqLength",
    halvings(asked.seqLength, leastSeqLength).map((seqLength) => ({ ...asked, seqLength })),
  );
  await firstThatFits(
    "ranks",
    doublings(asked.ranks, mostRanks).map((ranks) => ({ ...asked, ranks: wholeNodes(subject, ranks) })),
  );
  if (remedies.length > 0 || asked.checkpointing) return remedies;
  // No change alone is enough: two together may be.
  const recomputed = { ...asked, checkpointing: true };
  await firstThatFits(
    "seqLength",
    halvings(asked.seqLength, leastSeqLength).map((seqLength) => ({ ...recomputed, seqLength })),
  );
  await firstThatFits(
    "ranks",
    doublings(asked.ranks, mostRanks).map((ranks) => ({ ...recomputed, ranks: wholeNodes(subject, ranks) })),
  );
  return remedies;
}

/** Recomputing costs a third more compute, which is often less than what an offload costs. */
async function withoutOffload(subject: PlanSubject, { offloadOptimizer }: Placement): Promise<Remedy[]> {
  if (offloadOptimizer === "none" || subject.asked.checkpointing) return [];
  const variant = { ...subject.asked, checkpointing: true };
  const placement = await whatFits(subject, variant);
  return placement?.offloadOptimizer === "none" ? [{ change: "checkpointing", variant, placement }] : [];
}

/** The recommended placement with one sequence in a micro-batch. */
async function whatFits(
  subject: PlanSubject,
  variant: Variant,
  among: readonly Placement[] = placements(),
): Promise<Placement | undefined> {
  const room = subject.roomOf(variant);
  if (deviceAllowance(room) === 0) return undefined; // without asking what nothing has room for
  const found: Recommendation | object = await recommend(subject.estimateOf(variant), room, batchChoice(1), among);
  return "placement" in found ? found.placement : undefined;
}

export function halvings(from: number, least: number): number[] {
  const all: number[] = [];
  for (let n = Math.floor(from / 2); n >= least; n = Math.floor(n / 2)) all.push(n);
  return all;
}

export function doublings(from: number, most: number): number[] {
  const all: number[] = [];
  for (let n = 2 * from; n <= most; n *= 2) all.push(n);
  return all;
}
