// Faults of what a model computes: its ops, the tape, the output head, the positions and norms of Llama's family, fine-tuning.
import type { Fault } from "./faults.ts";
import { laws } from "./laws.ts";
import { tuningFaults } from "./tuning-faults.ts";

export const modelFaults: readonly Fault[] = [
  ...tuningFaults,
  {
    name: "the output head ignores the loss seed",
    file: "src/tensor/ops/loss.ts",
    find: "gradientScale: tape.lossSeed / divisor",
    replace: "gradientScale: 1 / divisor",
    law: laws.head,
  },
  {
    name: "the head's second chunk overwrites the first one's weight gradient",
    file: "src/tensor/ops/loss.ts",
    find: "      started = true;\n",
    replace: "",
    law: laws.head,
  },
  {
    name: "a saved tensor is not kept for backward",
    file: "src/tensor/tape.ts",
    find: "for (const tensor of saved) tensor.retain();",
    replace: "",
    law: laws.tape,
  },
  {
    name: "the gradient of a rotation is turned further, not back",
    file: "src/tensor/ops/rope.ts",
    find: "dy.shape, dy.dtype), true),",
    replace: "dy.shape, dy.dtype), false),",
    law: laws.gradients,
  },
  {
    name: "a second product's input gradient takes the place of the first's",
    file: "src/tensor/ops/linear.ts",
    find: "accumulate: held !== undefined,",
    replace: "accumulate: false,",
    law: laws.gradients,
  },
  {
    name: "positions are not scaled by llama3's rule",
    file: "src/nn/models/rope-angles.ts",
    find: "perPlace.map((f) => llama3Frequency(f, ropeScaling))",
    replace: "perPlace",
    law: laws.llama,
  },
  {
    name: "long texts turn by longrope's short factors",
    file: "src/nn/models/rope-angles.ts",
    find: "isLong ? ropeScaling.longFactors : ropeScaling.shortFactors",
    replace: "ropeScaling.shortFactors",
    law: laws.llama,
  },
  {
    name: "a window shows one token more",
    file: "src/nn/models/llama-config.ts",
    find: "? slidingWindow.tokens : undefined",
    replace: "? slidingWindow.tokens + 1 : undefined",
    law: laws.llama,
  },
  {
    name: "the first layer with a window has none",
    file: "src/nn/models/llama-config.ts",
    find: "layer >= slidingWindow.fromLayer",
    replace: "layer > slidingWindow.fromLayer",
    law: laws.llama,
  },
  {
    name: "the norm of keys is left out",
    file: "src/nn/models/llama.ts",
    find: "this.k_proj.forward(tape, x), this.k_norm, angles)",
    replace: "this.k_proj.forward(tape, x), undefined, angles)",
    law: laws.llama,
  },
  {
    name: "a gradient that comes twice is counted once",
    file: "src/tensor/tape.ts",
    find: "const addedInPlace = result !== undefined && result === offered.get(i);",
    replace: "const addedInPlace = result !== undefined && result === this.#gradients.get(node.inputs[i]!.id);",
    law: laws.gradients,
  },
];
