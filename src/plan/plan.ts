/**
 * The plan: pure data from which the engine runs and everything is foretold. Units and their flat layout, residences, sizes,
 * and the bytes that model states take at rest.
 */
import type { ResolvedConfig } from "../config/types.ts";
import { dtypeBytes } from "../device/dtype.ts";
import type { Tier } from "../device/ledger.ts";
import { UsageError } from "../errors/errors.ts";
import type { ModelDescription } from "../nn/describe.ts";
import { type FlatLayout, layUnits, type UnitLayout } from "./layout.ts";
import { deviceStatesOf, parameterTierOf } from "./partial-offload.ts";
import { type Residences, residencesOf, type SplitRow } from "./residence.ts";
import { type PlannedSizes, persistenceThreshold, planSizes } from "./sizes.ts";

export interface Plan {
  readonly worldSize: number;
  readonly config: ResolvedConfig;
  readonly residences: Residences;
  readonly units: readonly UnitLayout[];
  readonly sizes: PlannedSizes;
  /** How many elements at the start of each rank's range keep their optimizer states on the device. */
  readonly deviceStates: (flat: FlatLayout) => number;
  /** Where the parameters of a flat buffer rest. */
  readonly parameterTier: (flat: FlatLayout) => Tier;
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

/** @throws UsageError for residences that cannot work together, and for buffers that hold no unit's part */
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
  const sizes = planSizes(config, residences.optimizer.split, persistence, units);
  const parameterTier = parameterTierOf(residences, config.disk.parametersInHost, flats);
  checkBufferSize(
    config,
    flats.filter((flat) => parameterTier(flat) === "disk"),
  );
  const sum = (of: (f: (typeof flats)[number]) => number): number => flats.reduce((total, f) => total + of(f), 0);
  return {
    worldSize: config.worldSize,
    config,
    residences,
    units,
    sizes,
    parameterTier,
    deviceStates: deviceStatesOf(residences, config.offloadRatio, flats, sizes.subGroup.elements),
    parameterElements: sum((f) => f.elements),
    trainableElements: sum((f) => (f.trainable ? f.elements : 0)),
    paddingElements: sum((f) => f.paddedElements - f.elements),
  };
}

function checkBufferSize({ disk }: ResolvedConfig, onDisk: readonly FlatLayout[]): void {
  const { parameterBufferElements: written } = disk;
  const largest = Math.max(...onDisk.map((flat) => flat.rangeElements));
  if (written !== undefined && written < largest)
    throw new UsageError(
      `zero_optimization.offload_param.buffer_size: found ${written}; a rank's largest part of a unit has ${largest} elements, ` +
        `so write at least ${largest}, or leave it out`,
    );
}

function checkResidences({ optimizer, gradients, parameters }: Residences): void {
  if (optimizer.split === "whole" && optimizer.tier !== "device")
    throw new UsageError(
      "optimizer states that are not sharded stay on the device; use stage 1, 2 or 3 to offload them",
    );
  if (parameters.split === "whole" && parameters.tier !== "device")
    throw new UsageError("parameters that are not sharded stay on the device; use stage 3 to offload them");
  if (optimizer.split === "whole" && (gradients.split === "shard" || parameters.split === "shard"))
    throw new UsageError(
      "sharded gradients or parameters need sharded optimizer states: no rank could update the rest",
    );
}
