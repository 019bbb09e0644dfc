// Every byte and every element of a run beside what ZeRO's formulas and the forecast say of it. Used by laws of their own and
// by every run of the equality laws, so that equal bits cannot come from doing stage 0 everywhere.
import { expect } from "vitest";
import { dtypeBytes } from "../../src/device/dtype.ts";
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

/**
 * Bytes of parameters, gradients and optimizer states together, of `elements` trainable parameters in a world of n (contracts
 * 13). `extra` bytes a gradient come from fp32 accumulation.
 */
export function statesFormula(precision: string, stage: number, elements: number, n: number, extra = 0): number {
  const bytes =
    precision !== "fp32" ? [16, 4 + 12 / n, 2 + 14 / n, 16 / n][stage]! : [16, 8 + 8 / n, 4 + 12 / n, 16 / n][stage]!;
  return (bytes + (stage >= 2 ? extra / n : extra)) * elements;
}

/** Elements a rank sends in a step of g micro-batches, of which `persistent` ones are kept gathered (contracts 14). */
export function trafficFormula(stage: number, elements: number, persistent: number, n: number, g: number): number {
  const volume = [2 * elements, 2 * elements, (g + 1) * elements, 3 * g * elements - (2 * g - 1) * persistent][stage]!;
  return (volume * (n - 1)) / n;
}

/** Padded elements of the plan's flat buffers, and of those that are kept gathered. */
export function paddedElements(plan: Plan): { all: number; persistent: number } {
  const flats = plan.units.flatMap((u) => u.flats);
  const sum = (of: typeof flats): number => of.reduce((total, f) => total + f.paddedElements, 0);
  return { all: sum(flats), persistent: sum(flats.filter((f) => f.persistent)) };
}

export const lastReport = (answer: JobAnswer, rank: number): RankReport => answer.records.at(-1)!.ranks[rank]!;

/** Of a model without frozen parameters at the configured stage, whose units each run once forward and once backward. */
export function expectFormulas(plan: Plan, report: RankReport): void {
  const { precision, stage, worldSize, gradientAccumulation, gradientAccumulationType } = plan.config;
  const { all, persistent } = paddedElements(plan);
  expect(all).toBe(plan.parameterElements + plan.paddingElements);
  const extra = gradientAccumulationType === "fp32" && precision !== "fp32" ? 2 : 0;
  const { device } = report.memory;
  const states = device.parameters.current + device.gradients.current + device.optimizer.current;
  expect(states).toBeCloseTo(statesFormula(precision, stage, all, worldSize, extra), 3);
  expect(device.gathered.current).toBe(persistent * dtypeBytes[plan.residences.parameters.dtype]);
  expect(device.buckets.current).toBe(0);
  expect(device.activations.current).toBe(0);
  const { reduceScatter, allGather } = report.traffic;
  const sent = reduceScatter.elementsSent + allGather.elementsSent;
  expect(reduceScatter.elementsReceived + allGather.elementsReceived).toBe(sent);
  const sentType = plan.config.gradientReduction.type;
  if (sentType !== undefined)
    expect(reduceScatter.bytesSent).toBe(reduceScatter.elementsSent * dtypeBytes[elementDType[sentType]]);
  const formula = trafficFormula(stage, all, persistent, worldSize, gradientAccumulation);
  const savesGathers = stage === 3 && (plan.config.sizes.maxReuseDistance ?? 0) > 0;
  if (!savesGathers) expect(sent).toBeCloseTo(formula, 3);
  else {
    // Units may stay from their forward to their backward pass, so one gather of the two remains at least.
    const saved = (gradientAccumulation * (all - persistent) * (worldSize - 1)) / worldSize;
    expect(sent).toBeGreaterThanOrEqual(formula - saved);
    expect(sent).toBeLessThanOrEqual(formula);
  }
}

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
    expect(lastReport(answer, rank), `rank ${rank}`).toEqual(foretold.report);
  }
  return foretold!;
}
