// Faults of generation: of the cache of keys and values, the model that is held whole for a text, and the dealing of prompts.
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
    name: "ranks that hold the whole model all take rank 0's tokens",
    file: "src/generation/tokens.ts",
    find: "  if (!sharesParameters(engine)) return { token: own, isStopped };\n",
    replace: "",
    law: laws.generation,
  },
  {
    name: "the turn of a prompt's answer does not wait for the answer before it",
    file: "src/cli/generate-deal.ts",
    find: "      if (!first.hasEnded) return;\n",
    replace: "",
    law: laws.dealt,
  },
  {
    name: "prompts are read without end behind one that takes long",
    file: "src/cli/generate-deal.ts",
    find: "    await order.room(most);\n",
    replace: "",
    law: laws.dealt,
  },
  {
    name: "a checkpoint's text is made without the adapters of the run",
    file: "src/checkpoint/saved-model.ts",
    find: "return { folder, manifest, config, lora, weights,",
    replace: "return { folder, manifest, config, lora: undefined, weights,",
    law: laws.fromCheckpoint,
  },
  {
    name: "a text does not end where generation_config.json says",
    file: "src/generation/open-generator.ts",
    find: "tokenizer, endTokens, sampling });",
    replace: "tokenizer, endTokens: endTokensOf(config), sampling });",
    law: laws.modelSettings,
  },
  {
    name: "a checkpoint forgets the generation_config.json of its model",
    file: "src/checkpoint/saved-model.ts",
    find: 'typeof run.generation === "string" ? run.generation : undefined;',
    replace: "undefined;",
    law: laws.modelSettings,
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
