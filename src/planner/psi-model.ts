/**
 * A model of which only the number of parameters is known: one unit with one tensor, so that the plan's own formulas can be asked
 * for what depends on that number alone. Sizes that the plan derives from layers mean nothing for it.
 */
import type { ResolvedConfig } from "../config/types.ts";
import type { ModelDescription } from "../nn/describe.ts";
import { createPlan, type Plan } from "../plan/plan.ts";

/** A matrix one element wide: no threshold on small tensors holds it. */
export const psiModel = (parameters: number): ModelDescription => ({
  units: [{ name: "model", parameters: [{ name: "psi", shape: [parameters, 1], trainable: true }], uses: [] }],
});

/** Large enough that padding and rounding do not show in a formula. */
const anyParameters = 2 ** 40;

/** @param parameters undefined: only what is said in terms of psi may be read of the plan */
export function planOfPsi(config: ResolvedConfig, parameters: number | undefined, alignmentBytes: number): Plan {
  const sizes = { ...config.sizes, paramPersistenceThreshold: undefined };
  // Sub-groups of a written size would be few or many by a number that is not known.
  if (parameters === undefined) sizes.subGroupSize = undefined;
  // A buffer for one layer's parameters says nothing of a model whose layers are not known.
  const disk = { ...config.disk, parameterBufferElements: undefined };
  return createPlan({
    model: psiModel(parameters ?? anyParameters),
    config: { ...config, sizes, disk },
    alignmentBytes,
  });
}
