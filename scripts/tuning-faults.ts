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
  {
    name: "the digests of a checkpoint's base are not compared",
    file: "src/checkpoint/base-weights.ts",
    find: "digests.get(name) === baseDigest ?",
    replace: "digests.has(name) ?",
    law: laws.base,
  },
  {
    name: "a rank's part of the base is not compared by the others",
    file: "src/zero/base-tensors.ts",
    find: "for (const sums of all) whole",
    replace: "for (const sums of all.slice(0, 1)) whole",
    law: laws.base,
  },
  {
    name: "a tensor's digest does not depend on where its values are",
    file: "src/zero/base-tensors.ts",
    find: "tensor.digest.add(into.subarray(from - first, end - first), from);",
    replace: "tensor.digest.add(into.subarray(from - first, end - first), 0);",
    law: laws.base,
  },
  {
    name: "a checkpoint holds what stays in its base",
    file: "src/zero/saving.ts",
    find: ".filter(({ name }) => !isInBase(name))",
    replace: "",
    law: laws.base,
  },
  {
    name: "the base of a checkpoint is read from its folder although another one is given",
    file: "src/checkpoint/base-weights.ts",
    find: "  if (given) {",
    replace: "  if (given && !manifest) {",
    law: laws.base,
  },
];
