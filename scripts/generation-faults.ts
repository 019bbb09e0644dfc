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
    name: "the first passes of a long text turn as those of a short one",
    file: "src/nn/key-value-cache.ts",
    find: "Math.max(this.#announced, this.#length + next)",
    replace: "this.#length + next",
    law: laws.cache,
  },
  {
    name: "angles of a generated text begin anew in each pass",
    file: "src/nn/models/llama.ts",
    find: "this.#angles[kind].subarray(first * headWidth, end * headWidth)",
    replace: "this.#angles[kind].subarray(0, seq * headWidth)",
    law: laws.cache,
  },
];
