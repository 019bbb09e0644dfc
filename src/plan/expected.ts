/**
 * What the plan foretells without running: bytes of model states at rest and elements that collectives move in a step, by the
 * formulas of ZeRO (Rajbhandari et al., SC20, sections 5 and 7), each beside its padded value. The engine's ledger must equal
 * the padded values to the byte and to the element.
 */
import { dtypeBytes } from "../device/dtype.ts";
import { createOptimizer } from "../optim/optimizer.ts";
import type { FlatLayout } from "./layout.ts";
import type { Plan } from "./plan.ts";
import type { Split } from "./residence.ts";

export interface ExpectedBytes {
  /** The formula in words, with psi for the number of parameters and N for the world size. */
  readonly formula: string;
  /** Its value, without padding. */
  readonly formulaBytes: number;
  /** What the plan allocates, padding included. */
  readonly bytes: number;
}

export interface ExpectedStates {
  readonly parameters: ExpectedBytes;
  readonly gradients: ExpectedBytes;
  readonly optimizer: ExpectedBytes;
  /** Whole copies of persistent sharded parameters. */
  readonly gathered: ExpectedBytes;
}

const sum = (flats: readonly FlatLayout[], of: (f: FlatLayout) => number): number =>
  flats.reduce((total, f) => total + of(f), 0);

const allFlats = (plan: Plan): FlatLayout[] => plan.units.flatMap((u) => u.flats);
const trainableFlats = (plan: Plan): FlatLayout[] => allFlats(plan).filter((f) => f.trainable);

function expectedBytes(flats: readonly FlatLayout[], bytesEach: number, split: Split, plan: Plan): ExpectedBytes {
  const share = split === "shard" ? plan.worldSize : 1;
  return {
    formula: `${bytesEach} psi${split === "shard" ? " / N" : ""}`,
    formulaBytes: (bytesEach * sum(flats, (f) => f.elements)) / share,
    bytes: bytesEach * sum(flats, (f) => (split === "shard" ? f.rangeElements : f.paddedElements)),
  };
}

/** Model states at rest on each rank (contracts 13); what the optimizer keeps of an element is the rule's to say. */
export function expectedStates(plan: Plan): ExpectedStates {
  const { parameters, gradients, optimizer } = plan.residences;
  const masterBytes = parameters.dtype === "f32" ? 0 : 4;
  const momentBytes = 4 * createOptimizer(plan.config.optimizer).states.length;
  const persistent = allFlats(plan).filter((f) => f.persistent);
  return {
    parameters: expectedBytes(allFlats(plan), dtypeBytes[parameters.dtype], parameters.split, plan),
    gradients: expectedBytes(trainableFlats(plan), dtypeBytes[gradients.dtype], gradients.split, plan),
    optimizer: expectedBytes(trainableFlats(plan), masterBytes + momentBytes, optimizer.split, plan),
    gathered: expectedBytes(persistent, dtypeBytes[parameters.dtype], "whole", plan),
  };
}

export interface TrafficTerm {
  readonly collective: "reduceScatter" | "allGather";
  /** What moves and how often, in words. */
  readonly name: string;
  /** Elements this rank sends in a step (it receives as many), padding included. */
  readonly elements: number;
}

/**
 * Elements each rank sends in a step, term by term (contracts 14): (N-1)/N of 2 psi at stages 0 and 1, (1+g) psi at 2, 3g psi at 3,
 * with persistent parameters taken out of the gathers and published once. Where a reuse distance is written, gathers that it
 * saves are not known here; a forecast counts them.
 */
export function expectedTraffic(plan: Plan): TrafficTerm[] {
  const { parameters, gradients, optimizer } = plan.residences;
  const g = plan.config.gradientAccumulation;
  const sent = (flats: readonly FlatLayout[]): number => sum(flats, (f) => f.rangeElements) * (plan.worldSize - 1);
  const trained = trainableFlats(plan);
  const terms: TrafficTerm[] = [];
  const add = (collective: TrafficTerm["collective"], name: string, elements: number): void => {
    if (elements > 0) terms.push({ collective, name, elements });
  };
  const reductions = gradients.split === "shard" ? g : 1;
  add("reduceScatter", `gradients, ${times(reductions)}`, reductions * sent(trained));
  if (optimizer.split === "whole") add("allGather", "reduced gradients, once", sent(trained));
  else if (parameters.split === "whole") add("allGather", "updated parameters, once", sent(trained));
  if (parameters.split === "shard") {
    const gathered = allFlats(plan).filter((f) => !f.persistent);
    add("allGather", `parameters for forward and backward, ${times(2 * g)}`, 2 * g * sent(gathered));
    add("allGather", "persistent parameters, once", sent(trained.filter((f) => f.persistent)));
  }
  return terms;
}

const times = (n: number): string => (n === 1 ? "once" : n === 2 ? "twice" : `${n} times`);
