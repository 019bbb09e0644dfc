// Faults of generation: of the cache of keys and values, and of the model that is held whole for a text.
import type { Fault } from "./faults.ts";
import { laws } from "./laws.ts";

export const generationFaults: readonly Fault[] = [
  {
    name: "a generated text's whole model is released after each pass",
    file: "src/zero/unit.ts",
    find: "if (!this.#keeps) for (const unit of [...this.#held]) this.#release(unit);",
    replace: "for (const unit of [...this.#held]) this.#release(unit);",
    law: laws.generation,
  },
  {
    name: "a generated text's whole model stays when the text has ended",
    file: "src/zero/hold.ts",
    find: "    this.#units.releaseAll();\n",
    replace: "",
    law: laws.generation,
  },
  {
    name: "positions of a generated text begin anew in each pass",
    file: "src/nn/models/gpt2.ts",
    find: "first + (i % seq)",
    replace: "i % seq",
    law: laws.cache,
  },
  {
    name: "angles of a generated text begin anew in each pass",
    file: "src/nn/models/llama.ts",
    find: "this.#angles.subarray(first * headWidth, (first + seq) * headWidth)",
    replace: "this.#angles.subarray(0, seq * headWidth)",
    law: laws.cache,
  },
];
