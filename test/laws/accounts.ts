// Every byte and every element of a run beside what ZeRO's formulas and the forecast say of it. Used by laws of their own and
// by every run of the equality laws, so that equal bits cannot come from doing stage 0 everywhere.
import { expect } from "vitest";
import { dtypeBytes } from "../../src/device/dtype.ts";
import type { Tier } from "../../src/device/ledger.ts";
import type { Plan } from "../../src/plan/plan.ts";
import { elementDType } from "../../src/plan/residence.ts";
import { type Forecast, forecast } from "../../src/zero/forecast.ts";
import type { RankReport } from "../../src/zero/record.ts";
import { batchOf, configOf, type Job } from "./jobs.ts";
import { buildModel } from "./models.ts";
import type { JobAnswer } from "./pool.ts";

/** The same job on the simulated device, as one of its ranks. */
export function forecastOf(job: Job, worldSize: number, rank = 0): Promise<Forecast> {
  const config = configOf(job.config, worldSize);
  return forecast({
    model: buildModel(job.model, rank),
    config,
    batch: batchOf(job, 0, config.microBatch),
    threads: job.threads ?? 1,
    rank,
    ...(job.row && { row: job.row }),
  });
}

type StateBytes = Record<"parameters" | "gradients" | "optimizer", number>;

/** Bytes of model states by tier and kind that all units together have (contracts 13, 15). */
export function statesFormula(plan: Plan): Record<Tier, StateBytes> {
  const { precision, stage, worldSize: n, gradientAccumulationType, offloadOptimizer } = plan.config;
  const isDelayed = plan.config.delayedUpdateFrom !== undefined;
  const gradientBytes = gradientAccumulationType === "fp32" ? 4 : 2;
  const empty = (): StateBytes => ({ parameters: 0, gradients: 0, optimizer: 0 });
  const formula: Record<Tier, StateBytes> = { device: empty(), host: empty(), disk: empty() };
  for (const flat of plan.units.flatMap((u) => u.flats)) {
    const all = flat.paddedElements;
    const onDevice = stage === 0 ? all : plan.deviceStates(flat);
    const offloaded = offloadOptimizer === "none" ? 0 : all / n - onDevice;
    const parameterTier = plan.parameterTier(flat);
    formula[parameterTier].parameters += (precision === "fp32" ? 4 : 2) * (stage === 3 ? all / n : all);
    if (!flat.trainable) continue; // a frozen parameter costs what it takes itself, and no more
    // In fp32 a parameter is its own master where both live in one memory.
    const stateBytes = (tier: Tier): number =>
      precision === "fp32" && tier === parameterTier && tier !== "disk" && !isDelayed ? 8 : 12;
    formula.device.gradients += gradientBytes * (stage < 2 ? all : onDevice);
    // A delayed update reads its gradients while the next ones come, and keeps what it makes until it may be seen.
    formula.host.gradients += gradientBytes * offloaded * (isDelayed ? 2 : 1);
    formula.host.parameters += isDelayed ? (precision === "fp32" ? 4 : 2) * offloaded : 0;
    formula.device.optimizer += stateBytes("device") * onDevice;
    const tier = offloadOptimizer === "nvme" ? "disk" : "host";
    formula[tier].optimizer += stateBytes(tier) * offloaded;
  }
  return formula;
}

/** Elements that cross between device and host in a step of g micro-batches (contracts 15). */
export function crossingFormula(plan: Plan, forwardOnly: ReadonlySet<string>): { down: number; up: number } {
  const { stage, worldSize: n, gradientAccumulation: g, offloadOptimizer, offloadParam } = plan.config;
  const trained = plan.units.flatMap((u) => u.flats).filter((f) => f.trainable);
  const onDevice = trained.reduce((sum, f) => sum + plan.deviceStates(f), 0);
  const offloaded = offloadOptimizer === "none" ? 0 : paddedElements(plan).trained / n - onDevice;
  const gradients = (stage >= 2 ? g : 1) * offloaded;
  if (offloadParam === "none") return { down: gradients, up: offloaded };
  return { down: gradients + onDevice, up: gatherFormula(plan, g, forwardOnly) / n };
}

/** Elements that are gathered in a step at stage 3: for both passes, or for one; persistent ones once they are updated. */
function gatherFormula(plan: Plan, g: number, forwardOnly: ReadonlySet<string>): number {
  const { all, persistent, trainedPersistent } = paddedElements(plan);
  const once = paddedElements({ units: plan.units.filter(({ name }) => forwardOnly.has(name)) });
  return 2 * g * (all - persistent) - g * (once.all - once.persistent) + trainedPersistent;
}

/** Elements a rank sends in a step of g micro-batches, of which `persistent` ones are kept gathered (contracts 14). */
export function trafficFormula(stage: number, elements: number, persistent: number, n: number, g: number): number {
  const volume = [2 * elements, 2 * elements, (g + 1) * elements, 3 * g * elements - (2 * g - 1) * persistent][stage]!;
  return (volume * (n - 1)) / n;
}

/** Padded elements of the plan's flat buffers, of those that are kept gathered, and of those of both that are trained. */
export function paddedElements(plan: Pick<Plan, "units">): Record<PaddedKind, number> {
  const flats = plan.units.flatMap((u) => u.flats);
  const sum = (of: typeof flats): number => of.reduce((total, f) => total + f.paddedElements, 0);
  const trained = flats.filter((f) => f.trainable);
  return {
    all: sum(flats),
    persistent: sum(flats.filter((f) => f.persistent)),
    trained: sum(trained),
    trainedPersistent: sum(trained.filter((f) => f.persistent)),
  };
}

export const lastReport = (answer: JobAnswer, rank: number): RankReport => answer.records.at(-1)!.ranks[rank]!;

type PaddedKind = "all" | "persistent" | "trained" | "trainedPersistent";

/**
 * Of a model at the configured stage whose units each run once forward and once backward.
 * @param forwardOnly units below the lowest parameter that is trained
 */
export function expectFormulas(plan: Plan, report: RankReport, forwardOnly: ReadonlySet<string> = new Set()): void {
  const { stage, worldSize, gradientAccumulation } = plan.config;
  const { all, persistent, trained } = paddedElements(plan);
  expect(all).toBe(plan.parameterElements + plan.paddingElements);
  const { device } = report.memory;
  const states = statesFormula(plan);
  // What is on disk lies there in whole pages, sub-group by sub-group.
  const pages = paddedElements(plan).all / worldSize / plan.sizes.subGroup.elements + 2 * plan.units.length * 3;
  for (const kind of ["parameters", "gradients", "optimizer"] as const) {
    for (const tier of ["device", "host"] as const)
      expect(report.memory[tier][kind].current, `${tier} ${kind}`).toBeCloseTo(states[tier][kind], 3);
    expect(report.memory.disk[kind].current).toBeGreaterThanOrEqual(states.disk[kind]);
    expect(report.memory.disk[kind].current - states.disk[kind]).toBeLessThanOrEqual(3 * 4096 * pages);
  }
  if (states.disk.optimizer > 0) {
    expect(report.traffic.diskRead.bytesReceived).toBeGreaterThanOrEqual(states.disk.optimizer);
    expect(report.traffic.diskWrite.bytesSent).toBeGreaterThanOrEqual(states.disk.optimizer);
  } else if (states.disk.parameters === 0) expect(report.memory.host.staging.current).toBe(0);
  expect(device.gathered.current).toBe(persistent * dtypeBytes[plan.residences.parameters.dtype]);
  expect(device.buckets.current).toBe(0);
  expect(device.activations.current).toBe(0);
  const { reduceScatter, allGather, down, up } = report.traffic;
  const sent = reduceScatter.elementsSent + allGather.elementsSent;
  expect(reduceScatter.elementsReceived + allGather.elementsReceived).toBe(sent);
  const sentType = plan.config.gradientReduction.type;
  if (sentType !== undefined)
    expect(reduceScatter.bytesSent).toBe(reduceScatter.elementsSent * dtypeBytes[elementDType[sentType]]);
  const formula =
    stage < 3
      ? trafficFormula(stage, trained, 0, worldSize, gradientAccumulation)
      : ((gradientAccumulation * trained + gatherFormula(plan, gradientAccumulation, forwardOnly)) * (worldSize - 1)) /
        worldSize;
  const savesGathers = stage === 3 && (plan.config.sizes.maxReuseDistance ?? 0) > 0;
  const crossing = crossingFormula(plan, forwardOnly);
  expect(down.elementsSent).toBeCloseTo(crossing.down, 3);
  if (savesGathers) expect(up.elementsReceived).toBeLessThanOrEqual(crossing.up);
  else expect(up.elementsReceived).toBeCloseTo(crossing.up, 3);
  if (!savesGathers) expect(sent).toBeCloseTo(formula, 3);
  else {
    // Units may stay from their forward to their backward pass, so one gather of the two remains at least.
    const saved = (gradientAccumulation * (all - persistent) * (worldSize - 1)) / worldSize;
    expect(sent).toBeGreaterThanOrEqual(formula - saved);
    expect(sent).toBeLessThanOrEqual(formula);
  }
}

/** What is counted: times are measured, and a simulated device has none. */
const counted = ({ overlap: _, ...report }: RankReport): Omit<RankReport, "overlap"> => report;

/** The real run's ledgers are the simulated run's, to the byte and the element, on the ranks named. */
export async function expectForecast(
  job: Job,
  worldSize: number,
  answer: JobAnswer,
  ranks: readonly number[],
): Promise<Forecast> {
  let foretold: Forecast | undefined;
  for (const rank of ranks) {
    foretold = await forecastOf(job, worldSize, rank);
    expect(counted(lastReport(answer, rank)), `rank ${rank}`).toEqual(counted(foretold.report));
  }
  return foretold!;
}
