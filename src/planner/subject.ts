/** What is explained: a resolved configuration and the plan that is made of it, for as much of the model as is known. */
import type { ConfigResolution } from "../config/resolve.ts";
import type { OffloadDevice } from "../config/types.ts";
import type { Tier } from "../device/ledger.ts";
import type { Placement } from "../plan/placement.ts";
import type { Plan } from "../plan/plan.ts";
import type { Forecast } from "../zero/forecast.ts";

export interface Subject {
  /** As the user named it. */
  readonly file: string;
  readonly config: ConfigResolution;
  readonly plan: Plan;
  /** What numbers of the plan mean something: all; those of psi alone; none, only its formulas. */
  readonly known: "model" | "parameters" | "nothing";
  /** "gpt2-xl", or words for a number of parameters. */
  readonly modelName: string | undefined;
  /** Tokens of a sample. */
  readonly seqLength: number | undefined;
  /** Two steps of the engine on the simulated device; undefined where the model is not known. */
  readonly forecast: Forecast | undefined;
}

/** Psi; undefined where it is not known. */
export const parametersOf = ({ known, plan }: Subject): number | undefined =>
  known === "nothing" ? undefined : plan.parameterElements;

export const placementOf = ({ stage, offloadOptimizer, offloadParam }: Placement): Placement => ({
  stage,
  offloadOptimizer,
  offloadParam,
});

/** How a configured offload device is called everywhere else. */
export const tierOfDevice: Readonly<Record<OffloadDevice, Tier>> = { none: "device", cpu: "host", nvme: "disk" };
