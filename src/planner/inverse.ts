/** Inverse questions: the largest model, the fewest ranks and the largest batch that fit, for each way to place the states. */
import { type Placement, placements } from "../plan/placement.ts";
import { shortagesOf } from "./fit.ts";
import { batchChoice, largestThatFits } from "./recommend.ts";
import { type PlanSubject, type Variant, wholeNodes } from "./subject.ts";

export interface Inverse {
  readonly placement: Placement;
  /** Parameters, ranks or sequences; undefined: none does. */
  readonly answer: number | undefined;
}

const oneSequence = { microBatch: 1, gradientAccumulation: 1 };

async function fits(subject: PlanSubject, variant: Variant, placement: Placement): Promise<boolean> {
  const estimate = await subject.estimateOf(variant)(placement, oneSequence);
  return estimate !== undefined && shortagesOf(estimate, subject.roomOf(variant)).length === 0;
}

const leastParameters = 1e6;
const mostParameters = 2e13;
/** To so much of itself an answer is exact. */
const precision = 0.01;

/** With one sequence in a micro-batch. The width of the model follows its size, so its activations do. */
export async function largestModels(subject: PlanSubject): Promise<Inverse[]> {
  const answers: Inverse[] = [];
  for (const placement of placements()) {
    const holds = (parameters: number): Promise<boolean> => fits(subject, { ...subject.asked, parameters }, placement);
    answers.push({ placement, answer: await largestNumber(holds) });
  }
  return answers;
}

/** Bisects the logarithm. */
async function largestNumber(holds: (parameters: number) => Promise<boolean>): Promise<number | undefined> {
  if (!(await holds(leastParameters))) return undefined;
  let [fitting, failing] = [leastParameters, leastParameters * 10];
  while (failing <= mostParameters && (await holds(failing))) [fitting, failing] = [failing, failing * 10];
  while (failing / fitting > 1 + precision) {
    const middle = Math.sqrt(fitting * failing);
    if (await holds(Math.round(middle))) fitting = middle;
    else failing = middle;
  }
  return Math.round(fitting);
}

const mostRanks = 4096;

/** Ranks of the same kind as those that were asked about, on whole nodes where one does not do. */
export async function fewestRanks(subject: PlanSubject): Promise<Inverse[]> {
  const answers: Inverse[] = [];
  for (const placement of placements()) {
    const holds = (ranks: number): Promise<boolean> => fits(subject, { ...subject.asked, ranks }, placement);
    const least = await leastNumber(holds);
    answers.push({ placement, answer: least === undefined ? undefined : wholeNodes(subject, least) });
  }
  return answers;
}

/** What n ranks hold, more hold as well, but for padding and for what ranks of a node share. */
async function leastNumber(holds: (ranks: number) => Promise<boolean>): Promise<number | undefined> {
  let [failing, fitting] = [0, 1];
  while (!(await holds(fitting))) {
    [failing, fitting] = [fitting, 2 * fitting];
    if (fitting > mostRanks) return undefined;
  }
  while (fitting - failing > 1) {
    const middle = (failing + fitting) >> 1;
    if (await holds(middle)) fitting = middle;
    else failing = middle;
  }
  return fitting;
}

/** Sequences of a micro-batch. */
export async function largestBatches(subject: PlanSubject): Promise<Inverse[]> {
  const { splits } = batchChoice(undefined);
  const answers: Inverse[] = [];
  for (const placement of placements()) {
    const estimateOf = subject.estimateOf(subject.asked);
    const found = await largestThatFits(estimateOf, subject.roomOf(subject.asked), placement, splits);
    answers.push({ placement, answer: found?.batch.microBatch });
  }
  return answers;
}
