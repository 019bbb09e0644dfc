/**
 * What the plan foretells without running: bytes of model states at rest and elements that collectives move in a step, by the
 * formulas of ZeRO (Rajbhandari et al., SC20, sections 5 and 7), each beside its padded value. The engine's ledger must equal
 * the padded values to the byte and to the element.
 */
import { dtypeBytes } from "../device/dtype.ts";
import type { Tier } from "../device/ledger.ts";
import type { TrafficKind } from "../device/traffic.ts";
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

/** Elements of a rank, with and without padding, and how they came about. */
interface Counted {
  readonly formula: string;
  readonly elements: number;
  readonly paddedElements: number;
}

const nothing: Counted = { formula: "0", elements: 0, paddedElements: 0 };

/** All elements, or this rank's share of them. */
function counted(flats: readonly FlatLayout[], split: Split, plan: Plan): Counted {
  const isShard = split === "shard";
  // Where some parameters are frozen, those that are trained have a name of their own.
  const psi = flats.every((f) => f.trainable) && plan.trainableElements < plan.parameterElements ? "psi_t" : "psi";
  return {
    formula: isShard ? `${psi} / N` : psi,
    elements: sum(flats, (f) => f.elements) / (isShard ? plan.worldSize : 1),
    paddedElements: sum(flats, (f) => (isShard ? f.rangeElements : f.paddedElements)),
  };
}

/** What a rank updates whose optimizer states live in `tier`. */
function updatedIn(tier: Tier, plan: Plan, flats = trainableFlats(plan)): Counted {
  const { optimizer } = plan.residences;
  const all = counted(flats, optimizer.split, plan);
  const onDevice = optimizer.split === "whole" ? all.paddedElements : sum(flats, plan.deviceStates);
  const here = tier === "device" ? onDevice : tier === optimizer.tier ? all.paddedElements - onDevice : 0;
  if (here === 0) return nothing;
  const share = here / all.paddedElements;
  const formula = share === 1 ? all.formula : `${share.toFixed(3)} ${all.formula}`;
  return { formula, elements: all.elements * share, paddedElements: here };
}

const times = (bytesEach: number, { formula, elements, paddedElements }: Counted): ExpectedBytes => ({
  formula: formula === "0" ? "0" : `${bytesEach} ${formula}`,
  formulaBytes: bytesEach * elements,
  bytes: bytesEach * paddedElements,
});

/** Where fp32 parameters and the states share a memory that has addresses, the parameters are their own master. */
function optimizerBytes(tier: Tier, plan: Plan): ExpectedBytes {
  const { parameters } = plan.residences;
  const momentBytes = 4 * createOptimizer(plan.config.optimizer).states.length;
  const isMaster = (flat: FlatLayout): boolean =>
    parameters.dtype === "f32" && tier !== "disk" && plan.parameterTier(flat) === tier && !isDelayed(plan);
  const flats = trainableFlats(plan);
  return together([
    times(momentBytes, updatedIn(tier, plan, flats.filter(isMaster))),
    times(
      momentBytes + 4,
      updatedIn(
        tier,
        plan,
        flats.filter((flat) => !isMaster(flat)),
      ),
    ),
  ]);
}

/** Several things of one kind. */
function together(all: readonly ExpectedBytes[]): ExpectedBytes {
  const parts = all.filter(({ bytes }) => bytes > 0);
  return {
    formula: parts.map(({ formula }) => formula).join(" + ") || "0",
    formulaBytes: parts.reduce((total, part) => total + part.formulaBytes, 0),
    bytes: parts.reduce((total, part) => total + part.bytes, 0),
  };
}

/** An update that runs beside the next step reads gradients while others come, and keeps what it makes until it may be seen. */
const isDelayed = ({ config }: Plan): boolean => config.delayedUpdateFrom !== undefined;

/** Model states at rest in one tier of each rank (contracts 13, 15); what the optimizer keeps of an element is the rule's to say. */
export function expectedStates(plan: Plan, tier: Tier = "device"): ExpectedStates {
  const { parameters, gradients, optimizer } = plan.residences;
  // Gradients that all ranks hold whole stay on the device; what is updated elsewhere has a copy there, in host memory.
  const keepsWhole = tier === "device" && gradients.split === "whole";
  const gradientTier = tier === "host" && optimizer.tier === "disk" ? "disk" : tier;
  const resting = keepsWhole
    ? counted(trainableFlats(plan), "whole", plan)
    : tier === "disk"
      ? nothing
      : updatedIn(gradientTier, plan);
  const persistent = tier === "device" ? allFlats(plan).filter((f) => f.persistent) : [];
  const here = allFlats(plan).filter((flat) => plan.parameterTier(flat) === tier);
  const parameterBytes = dtypeBytes[parameters.dtype];
  const keepsTwo = tier === "host" && isDelayed(plan);
  return {
    parameters: together([
      times(parameterBytes, here.length > 0 ? counted(here, parameters.split, plan) : nothing),
      times(parameterBytes, keepsTwo ? resting : nothing),
    ]),
    gradients: times(dtypeBytes[gradients.dtype] * (keepsTwo ? 2 : 1), resting),
    optimizer: optimizerBytes(tier, plan),
    gathered: times(parameterBytes, counted(persistent, "whole", plan)),
  };
}

export const noUnits: ReadonlySet<string> = new Set();

/** Flat buffers that are gathered for each pass of a micro-batch, and those that are for its forward pass alone. */
export function gatheredFlats(plan: Plan, forwardOnly: ReadonlySet<string>): [FlatLayout[], FlatLayout[]] {
  const of = (isOnce: boolean): FlatLayout[] =>
    plan.units
      .filter(({ name }) => forwardOnly.has(name) === isOnce)
      .flatMap(({ flats }) => flats.filter((f) => !f.persistent));
  return [of(false), of(true)];
}

export interface TrafficTerm {
  readonly kind: TrafficKind;
  /** What moves and how often, in words. */
  readonly name: string;
  /**
   * Elements of a step, padding included: those that this rank sends in a collective (it receives as many), or copies between device
   * and host. To and from disk: bytes.
   */
  readonly elements: number;
}

/**
 * Elements each rank sends in a step, term by term (contracts 14): (N-1)/N of 2 psi_t at stages 0 and 1, (1+g) psi_t at 2 and
 * g (2 psi + psi_t) at 3, with persistent parameters taken out of the gathers and published once. Where a reuse distance is written,
 * gathers that it saves are not known here; a forecast counts them.
 * @param forwardOnly names of units whose parameters the backward pass does not use
 */
export function expectedTraffic(plan: Plan, forwardOnly: ReadonlySet<string> = noUnits): TrafficTerm[] {
  const { parameters, gradients, optimizer } = plan.residences;
  const g = plan.config.gradientAccumulation;
  const sent = (flats: readonly FlatLayout[]): number => sum(flats, (f) => f.rangeElements) * (plan.worldSize - 1);
  const trained = trainableFlats(plan);
  const terms: TrafficTerm[] = [];
  const add = (kind: TrafficKind, name: string, elements: number): void => {
    if (elements > 0) terms.push({ kind, name, elements });
  };
  const reductions = gradients.split === "shard" ? g : 1;
  add("reduceScatter", `gradients, ${often(reductions)}`, reductions * sent(trained));
  if (optimizer.split === "whole") add("allGather", "reduced gradients, once", sent(trained));
  else if (parameters.split === "whole") add("allGather", "updated parameters, once", sent(trained));
  if (parameters.split === "shard") {
    const [twice, once] = gatheredFlats(plan, forwardOnly);
    add("allGather", `parameters for forward and backward, ${often(2 * g)}`, 2 * g * sent(twice));
    add("allGather", `parameters for forward alone, ${often(g)}`, g * sent(once));
    add("allGather", "persistent parameters, once", sent(trained.filter((f) => f.persistent)));
  }
  return terms;
}

/** "once", "twice", "3 times". */
export const often = (n: number): string => (n === 1 ? "once" : n === 2 ? "twice" : `${n} times`);
