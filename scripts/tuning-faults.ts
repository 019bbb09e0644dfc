// Faults of fine-tuning: frozen parameters and adapters.
import type { Fault } from "./faults.ts";
import { laws } from "./laws.ts";

export const tuningFaults: readonly Fault[] = [
  {
    name: "frozen parameters have optimizer states",
    file: "src/zero/flat.ts",
    find: "const updated = layout.trainable ? this.#ranges(plan) : [];",
    replace: "const updated = this.#ranges(plan);",
    law: laws.frozen,
  },
  {
    name: "what no gradient flows to is gathered to run again",
    file: "src/tensor/tape.ts",
    find: "const needsValues = output.requiresGradient;",
    replace: "const needsValues = true;",
    law: laws.frozen,
  },
  {
    name: "the first pattern that fits a name counts, and not the last",
    file: "src/nn/freeze.ts",
    find: "rules.findLast(",
    replace: "rules.find(",
    law: laws.frozen,
  },
  {
    name: "an adapter is multiplied by alpha alone",
    file: "src/nn/lora.ts",
    find: "alpha / (rankStabilized ? Math.sqrt(rank) : rank)",
    replace: "alpha / (rankStabilized ? Math.sqrt(rank) : 1)",
    law: laws.peft,
  },
  {
    name: "an adapter takes the place of the layer's own product",
    file: "src/tensor/ops/linear.ts",
    find: "accumulate: onto !== undefined,",
    replace: "accumulate: false,",
    law: laws.peft,
  },
  {
    name: "merging takes GPT-2's weights for those of the other order",
    file: "src/checkpoint/merge-adapter.ts",
    find: "if (outIn) return",
    replace: "if (outIn || true) return",
    law: laws.peft,
  },
];
