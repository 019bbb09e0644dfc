/**
 * The table that everything follows from: where each kind of model state lives, by ZeRO stage (Rajbhandari et al., SC20,
 * section 5) and by tier (ZeRO-Offload, Ren et al., ATC21; ZeRO-Infinity, Rajbhandari et al., SC21). A stage is a row, a tier a
 * column. No code outside the plan asks which stage it is.
 */
import type { ElementType, OffloadDevice, ResolvedConfig, Stage } from "../config/types.ts";
import type { DType } from "../device/dtype.ts";
import type { Tier } from "../device/ledger.ts";

/** `whole`: every rank holds all of it. `shard`: every rank holds its own 1/N. */
export type Split = "whole" | "shard";

export interface Place {
  readonly split: Split;
  readonly tier: Tier;
}

export interface Residence extends Place {
  readonly dtype: DType;
}

/** The three kinds of model state. */
export interface Residences {
  /** fp32 master weights (in 16-bit training) and the optimizer's moments. */
  readonly optimizer: Residence;
  /** Gradients kept between micro-batches. */
  readonly gradients: Residence;
  /** Parameters at rest. */
  readonly parameters: Residence;
}

export type SplitRow = Readonly<Record<keyof Residences, Split>>;

export const stageRows: Readonly<Record<Stage, SplitRow>> = {
  0: { optimizer: "whole", gradients: "whole", parameters: "whole" },
  1: { optimizer: "shard", gradients: "whole", parameters: "whole" },
  2: { optimizer: "shard", gradients: "shard", parameters: "whole" },
  3: { optimizer: "shard", gradients: "shard", parameters: "shard" },
};

/** The device's name of a configured element type. */
export const elementDType: Readonly<Record<ElementType, DType>> = { fp32: "f32", bf16: "bf16", fp16: "f16" };

/** The tier of a configured offload device. */
export const tierOf: Readonly<Record<OffloadDevice, Tier>> = { none: "device", cpu: "host", nvme: "disk" };

/** @param row of the table */
export function placesOf(
  { offloadOptimizer, offloadParam }: Pick<ResolvedConfig, "offloadOptimizer" | "offloadParam">,
  row: SplitRow,
): Readonly<Record<keyof Residences, Place>> {
  const optimizer = tierOf[offloadOptimizer];
  return {
    optimizer: { split: row.optimizer, tier: optimizer },
    // Where every rank holds all gradients they stay on the device until they are reduced; a shard goes to the host at once.
    gradients: {
      split: row.gradients,
      tier: optimizer !== "device" && row.gradients === "shard" ? "host" : "device",
    },
    parameters: { split: row.parameters, tier: tierOf[offloadParam] },
  };
}

/** @param row of the table; the configuration's stage unless given */
export function residencesOf(config: ResolvedConfig, row: SplitRow = stageRows[config.stage]): Residences {
  const { optimizer, gradients, parameters } = placesOf(config, row);
  return {
    optimizer: { ...optimizer, dtype: "f32" },
    gradients: { ...gradients, dtype: elementDType[config.gradientAccumulationType] },
    parameters: { ...parameters, dtype: elementDType[config.precision] },
  };
}
