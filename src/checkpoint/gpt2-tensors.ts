/** The names and shapes of GPT-2's weights in Hugging Face's files. */

import type { Gpt2Config } from "../nn/models/gpt2-config.ts";

const prefix = "transformer.";

/** Name to shape in the order of the network, with the `transformer.` prefix. Linear weights are [in, out] (Conv1D). */
export function gpt2TensorShapes(config: Gpt2Config): ReadonlyMap<string, readonly number[]> {
  const { hidden } = config;
  const shapes = new Map<string, readonly number[]>();
  const add = (name: string, ...shape: number[]) => shapes.set(prefix + name, shape);
  const addNorm = (name: string) => add(`${name}.weight`, hidden).set(`${prefix}${name}.bias`, [hidden]);
  const addLinear = (name: string, inputs: number, outputs: number) =>
    add(`${name}.weight`, inputs, outputs).set(`${prefix}${name}.bias`, [outputs]);
  add("wte.weight", config.vocabularySize, hidden);
  add("wpe.weight", config.positions, hidden);
  for (let layer = 0; layer < config.layers; layer++) {
    addNorm(`h.${layer}.ln_1`);
    addLinear(`h.${layer}.attn.c_attn`, hidden, 3 * hidden);
    addLinear(`h.${layer}.attn.c_proj`, hidden, hidden);
    addNorm(`h.${layer}.ln_2`);
    addLinear(`h.${layer}.mlp.c_fc`, hidden, 4 * hidden);
    addLinear(`h.${layer}.mlp.c_proj`, 4 * hidden, hidden);
  }
  addNorm("ln_f");
  if (!config.tied) shapes.set("lm_head.weight", [config.vocabularySize, hidden]);
  return shapes;
}

/** The one form of a name: files carry it with or without the `transformer.` prefix; the head never has it. */
export function canonicalName(name: string): string {
  return name.startsWith(prefix) || name === "lm_head.weight" ? name : prefix + name;
}

/** Entries of published files that are no weights: the causal mask, and a copy of the token embedding as tied head. */
export function isNoWeight(name: string, config: Gpt2Config): boolean {
  return /\.attn\.(bias|masked_bias)$/.test(name) || (config.tied && name === "lm_head.weight");
}
