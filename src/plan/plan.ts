/**
 * The plan: pure data from which the engine runs and everything is foretold. Units and their flat layout, residences, sizes,
 * and the bytes that model states take at rest.
 */
import type { ResolvedConfig } from "../config/types.ts";
import { dtypeBytes } from "../device/dtype.ts";
import { UsageError } from "../errors/errors.ts";
import type { ModelDescription } from "../nn/describe.ts";
import { layUnits, type UnitLayout } from "./layout.ts";
import { type Residences, residencesOf, type SplitRow } from "./residence.ts";
import { type PlannedSizes, persistenceThreshold, planSizes } from "./sizes.ts";

export interface Plan {
  readonly worldSize: number;
  readonly config: ResolvedConfig;
  readonly residences: Residences;
  readonly units: readonly UnitLayout[];
  readonly sizes: PlannedSizes;
  /** Elements of all parameters, of the trainable ones, and the padding of their flat buffers. */
  readonly parameterElements: number;
  readonly trainableElements: number;
  readonly paddingElements: number;
}

export interface PlanOptions {
  readonly model: ModelDescription;
  readonly config: ResolvedConfig;
  /** The device's alignment in bytes. */
  readonly alignmentBytes: number;
  /** A row of the residence table other than the configured stage's. */
  readonly row?: SplitRow;
}

/** @throws UsageError for residences that cannot work together */
export function createPlan(options: PlanOptions): Plan {
  const { model, config } = options;
  const residences = residencesOf(config, options.row);
  checkResidences(residences);
  const persistence = persistenceThreshold(config.sizes, model);
  const units = layUnits(model, {
    worldSize: config.worldSize,
    alignElements: options.alignmentBytes / dtypeBytes[residences.parameters.dtype],
    persistenceThreshold: persistence.elements,
    parametersSharded: residences.parameters.split === "shard",
  });
  const flats = units.flatMap((u) => u.flats);
  const sum = (of: (f: (typeof flats)[number]) => number): number => flats.reduce((total, f) => total + of(f), 0);
  return {
    worldSize: config.worldSize,
    config,
    residences,
    units,
    sizes: planSizes(config.sizes, persistence, units, config.worldSize),
    parameterElements: sum((f) => f.elements),
    trainableElements: sum((f) => (f.trainable ? f.elements : 0)),
    paddingElements: sum((f) => f.paddedElements - f.elements),
  };
}

function checkResidences({ optimizer, gradients, parameters }: Residences): void {
  if (optimizer.split === "whole" && (gradients.split === "shard" || parameters.split === "shard"))
    throw new UsageError(
      "sharded gradients or parameters need sharded optimizer states: no rank could update the rest",
    );
}
