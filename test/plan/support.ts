// Plans of made-up models, described as data.
import type { ModelDescription, ParameterDescription } from "../../src/nn/describe.ts";
import { createPlan, type Plan } from "../../src/plan/plan.ts";
import type { SplitRow } from "../../src/plan/residence.ts";
import { configOf } from "../laws/jobs.ts";

export const parameter = (name: string, shape: readonly number[], trainable = true): ParameterDescription => ({
  name,
  shape,
  trainable,
});

/** One unit per entry. */
export const modelOf = (units: Readonly<Record<string, readonly ParameterDescription[]>>): ModelDescription => ({
  units: Object.entries(units).map(([name, parameters]) => ({ name, parameters, uses: [] })),
});

export interface PlanSettings {
  readonly worldSize: number;
  readonly stage?: number;
  readonly zero?: object;
  readonly more?: object;
  readonly alignmentBytes?: number;
  readonly row?: SplitRow;
}

export function planOf(model: ModelDescription, settings: PlanSettings): Plan {
  const { worldSize, stage = 3, zero = {}, more = {}, alignmentBytes = 256, row } = settings;
  const config = configOf(
    { train_micro_batch_size_per_gpu: 1, zero_optimization: { stage, ...zero }, ...more },
    worldSize,
  );
  return createPlan({ model, config, alignmentBytes, ...(row && { row }) });
}
