/** The names and shapes of the weights of Llama's family in Hugging Face's files. */

import type { LlamaConfig } from "../nn/models/llama-config.ts";

const prefix = "model.";

/** Name to shape in the order of the network, with the `model.` prefix. Linear weights are [out, in] (nn.Linear). */
export function llamaTensorShapes(config: LlamaConfig): ReadonlyMap<string, readonly number[]> {
  const { hidden, heads, keyValueHeads, headWidth, feedForward, vocabularySize } = config;
  const shapes = new Map<string, readonly number[]>();
  const add = (name: string, ...shape: number[]) => shapes.set(prefix + name, shape);
  const addLinear = (name: string, inputs: number, outputs: number, bias: boolean) => {
    add(`${name}.weight`, outputs, inputs);
    if (bias) add(`${name}.bias`, outputs);
  };
  const [queries, keys] = [heads * headWidth, keyValueHeads * headWidth];
  add("embed_tokens.weight", vocabularySize, hidden);
  for (let layer = 0; layer < config.layers; layer++) {
    const at = `layers.${layer}`;
    const inner = config.attentionBias !== "none";
    addLinear(`${at}.self_attn.q_proj`, hidden, queries, inner);
    addLinear(`${at}.self_attn.k_proj`, hidden, keys, inner);
    addLinear(`${at}.self_attn.v_proj`, hidden, keys, inner);
    addLinear(`${at}.self_attn.o_proj`, queries, hidden, config.attentionBias === "all");
    if (config.normsQueryAndKey) {
      add(`${at}.self_attn.q_norm.weight`, headWidth);
      add(`${at}.self_attn.k_norm.weight`, headWidth);
    }
    addLinear(`${at}.mlp.gate_proj`, hidden, feedForward, config.feedForwardBias);
    addLinear(`${at}.mlp.up_proj`, hidden, feedForward, config.feedForwardBias);
    addLinear(`${at}.mlp.down_proj`, feedForward, hidden, config.feedForwardBias);
    add(`${at}.input_layernorm.weight`, hidden);
    add(`${at}.post_attention_layernorm.weight`, hidden);
  }
  add("norm.weight", hidden);
  if (!config.tied) shapes.set("lm_head.weight", [vocabularySize, hidden]);
  return shapes;
}

/** The one form of a name: files carry it with or without the `model.` prefix; the head never has it. */
export function canonicalLlamaName(name: string): string {
  return name.startsWith(prefix) || name === "lm_head.weight" ? name : prefix + name;
}

/** Entries of published files that are no weights: the frequencies of rotary positions, and a copy of the embedding as tied head. */
export function isNoLlamaWeight(name: string, config: LlamaConfig): boolean {
  return name.endsWith(".rotary_emb.inv_freq") || (config.tied && name === "lm_head.weight");
}
