/** What is explained: a resolved configuration and the plan that is made of it, for as much of the model as is known. */
import type { ConfigResolution } from "../config/resolve.ts";
import type { Placement } from "../plan/placement.ts";
import type { Plan } from "../plan/plan.ts";
import type { PlannedSizes } from "../plan/sizes.ts";
import type { Forecast } from "../zero/forecast.ts";
import type { DeepSpeedEstimate } from "./deepspeed.ts";

export interface Subject {
  /** As the user named it. */
  readonly file: string;
  readonly config: ConfigResolution;
  readonly plan: Plan;
  /** What numbers of the plan mean something: all; those of psi alone; none, only its formulas. */
  readonly known: "model" | "parameters" | "nothing";
  /** "gpt2-xl", or words for a number of parameters. */
  readonly modelName: string | undefined;
  /** Sizes that are derived from layers; undefined where those are not known, or not as Shunya has them. */
  readonly sizes: PlannedSizes | undefined;
  /** Tokens of a sample. */
  readonly seqLength: number | undefined;
  /** Two steps of the engine on the simulated device; undefined where the model is not known. */
  readonly forecast: Forecast | undefined;
  /** The same job in DeepSpeed; undefined where the shape is not known, or DeepSpeed has no such placement. */
  readonly deepSpeed: DeepSpeedEstimate | undefined;
}

/** Psi; undefined where it is not known. */
export const parametersOf = ({ known, plan }: Subject): number | undefined =>
  known === "nothing" ? undefined : plan.parameterElements;

export const placementOf = ({ stage, offloadOptimizer, offloadParam }: Placement): Placement => ({
  stage,
  offloadOptimizer,
  offloadParam,
});
