/**
 * What a rank copies between tiers in a step, term by term (ZeRO-Offload, ATC21, section 4: with one micro-batch 2 psi bytes down and
 * 2 psi up in all, the least there can be; ZeRO-Infinity, SC21, section 6). Between device and host in elements, to and from disk
 * in bytes, where every record takes whole pages.
 */
import { dtypeBytes } from "../device/dtype.ts";
import { diskAlignmentBytes } from "../device/swap.ts";
import { createOptimizer } from "../optim/optimizer.ts";
import { gatheredFlats, noUnits, often, type TrafficTerm } from "./expected.ts";
import type { FlatLayout } from "./layout.ts";
import type { Plan } from "./plan.ts";

/** @param forwardOnly names of units whose parameters the backward pass does not use */
export function expectedCopies(plan: Plan, forwardOnly: ReadonlySet<string> = noUnits): TrafficTerm[] {
  const flats = plan.units.flatMap((u) => u.flats);
  const [twice, once] = gatheredFlats(plan, forwardOnly).map((gathered) => new Set(gathered)) as [
    Set<FlatLayout>,
    Set<FlatLayout>,
  ];
  const terms: TrafficTerm[] = [];
  const add = (kind: TrafficTerm["kind"], name: string, of: (flat: FlatLayout) => number): void => {
    const elements = flats.reduce((total, flat) => total + of(flat), 0);
    if (elements > 0) terms.push({ kind, name, elements });
  };
  const g = plan.config.gradientAccumulation;
  const isOnDevice = (flat: FlatLayout): boolean => plan.parameterTier(flat) === "device";
  const offloaded = (flat: FlatLayout): number => updatedElements(plan, flat) - keptElements(plan, flat);
  const reductions = plan.residences.gradients.split === "shard" ? g : 1;

  add("down", `gradients, ${often(reductions)}`, (flat) => reductions * offloaded(flat));
  add("down", "parameters that were updated on the device, once", (flat) =>
    isOnDevice(flat) ? 0 : keptElements(plan, flat),
  );
  add("up", "parameters that were updated on the host, once", (flat) => (isOnDevice(flat) ? offloaded(flat) : 0));
  const fetched = (flat: FlatLayout, among: Set<FlatLayout>): boolean => !isOnDevice(flat) && among.has(flat);
  const refreshed = (flat: FlatLayout): boolean => !isOnDevice(flat) && flat.persistent && flat.trainable;
  add("up", `parameters for forward and backward, ${often(2 * g)}`, (flat) =>
    fetched(flat, twice) ? 2 * g * flat.rangeElements : 0,
  );
  add("up", `parameters for forward alone, ${often(g)}`, (flat) => (fetched(flat, once) ? g * flat.rangeElements : 0));
  add("up", "persistent parameters, once", (flat) => (refreshed(flat) ? flat.rangeElements : 0));

  const states = stateDiskBytes(plan);
  const parametersOf = (flat: FlatLayout): number =>
    plan.parameterTier(flat) === "disk" ? parameterDiskBytes(plan, flat) : 0;
  add("diskRead", "optimizer states, once", states);
  add("diskRead", `parameters for forward and backward, ${often(2 * g)}`, (flat) =>
    fetched(flat, twice) ? 2 * g * parametersOf(flat) : 0,
  );
  add("diskRead", `parameters for forward alone, ${often(g)}`, (flat) =>
    fetched(flat, once) ? g * parametersOf(flat) : 0,
  );
  add("diskRead", "persistent parameters, once", (flat) => (refreshed(flat) ? parametersOf(flat) : 0));
  add("diskWrite", "optimizer states, once", states);
  add("diskWrite", "updated parameters, once", (flat) => (flat.trainable ? parametersOf(flat) : 0));
  return terms;
}

/** Elements of a flat buffer that a rank updates, and those of them whose states are on the device. */
function updatedElements({ residences }: Plan, flat: FlatLayout): number {
  if (!flat.trainable) return 0;
  return residences.optimizer.split === "whole" ? flat.paddedElements : flat.rangeElements;
}

function keptElements(plan: Plan, flat: FlatLayout): number {
  if (!flat.trainable) return 0;
  return plan.residences.optimizer.split === "whole" ? flat.paddedElements : plan.deviceStates(flat);
}

/** Bytes of a rank's states of a flat buffer on disk: a record for each sub-group, in which each kind has whole pages. */
function stateDiskBytes(plan: Plan): (flat: FlatLayout) => number {
  const { optimizer } = plan.residences;
  const kinds = 1 + createOptimizer(plan.config.optimizer).states.length;
  return (flat) => {
    if (optimizer.tier !== "disk" || !flat.trainable) return 0;
    return (
      kinds * pagedBytes(plan, updatedElements(plan, flat) - keptElements(plan, flat), dtypeBytes[optimizer.dtype])
    );
  };
}

/** The same of its parameters: pieces as updates write them. */
function parameterDiskBytes(plan: Plan, flat: FlatLayout): number {
  const bytes = dtypeBytes[plan.residences.parameters.dtype];
  const kept = plan.deviceStates(flat);
  return pagedBytes(plan, kept, bytes) + pagedBytes(plan, flat.rangeElements - kept, bytes);
}

/** Bytes of so many elements in pieces of a sub-group each, every piece in whole pages. */
function pagedBytes({ sizes }: Plan, elements: number, elementBytes: number): number {
  const perPiece = sizes.subGroup.elements;
  const paged = (count: number): number => Math.ceil((count * elementBytes) / diskAlignmentBytes) * diskAlignmentBytes;
  const whole = Math.floor(elements / perPiece);
  return whole * paged(perPiece) + paged(elements - whole * perPiece);
}
