/** `dump_state`: the configuration as it was resolved, and the plan that was made of it, as JSON. */
import type { ResolvedConfig } from "../config/types.ts";
import type { Plan } from "../plan/plan.ts";

export function renderState(plan: Plan): string {
  const { sources, ...config } = plan.config as ResolvedConfig & { readonly warnings?: readonly string[] };
  const state = {
    config,
    sources: Object.fromEntries([...sources].filter(([, source]) => source !== "default")),
    plan: {
      parameterElements: plan.parameterElements,
      trainableElements: plan.trainableElements,
      paddingElements: plan.paddingElements,
      residences: plan.residences,
      sizes: plan.sizes,
      units: plan.units.map(({ name, flats }) => ({
        name,
        flats: flats.map(({ pieces, ...flat }) => ({ ...flat, tensors: pieces.map((piece) => piece.name) })),
      })),
    },
  };
  return `State (dump_state):\n${JSON.stringify(state, undefined, 2)}`;
}
