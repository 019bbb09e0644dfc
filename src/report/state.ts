/** `dump_state`: the configuration as it was resolved, and the plan that was made of it, as JSON. */
import type { ConfigResolution } from "../config/resolve.ts";
import type { ResolvedConfig } from "../config/types.ts";
import type { Plan } from "../plan/plan.ts";

/** Values alone: what was said of them is shown elsewhere. */
type Resolution = ResolvedConfig & Partial<Pick<ConfigResolution, "places" | "autos" | "warnings">>;

export function renderState(plan: Plan): string {
  const { sources, places: _places, autos: _autos, warnings: _warnings, ...config } = plan.config as Resolution;
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
