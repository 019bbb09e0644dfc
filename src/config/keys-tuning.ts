/** Rows of the key table: what of a model is trained. */

import { derived, type KeySpec, nullable, used } from "./key-kinds.ts";
import { names, positive } from "./key-types.ts";
import { boolean, integer, number } from "./value-types.ts";

export const tuningKeys = {
  "shunya.freeze": nullable(
    derived(
      names,
      "parameters that are not trained, by name pattern (* is any text); a pattern after ! is trained again, and the last that fits a name counts",
    ),
  ),
  "shunya.lora.rank": nullable(
    derived(integer(1), "rank of LoRA's adapters: they are trained, and all else is frozen; left out: no adapters"),
  ),
  "shunya.lora.alpha": used(positive, 8, "what an adapter adds is multiplied by alpha / rank; left out: 8, as in PEFT"),
  "shunya.lora.targets": nullable(
    derived(
      names,
      'ends of the names of the layers that get an adapter, or "all-linear"; left out: PEFT\'s, c_attn of GPT-2, q_proj and v_proj of Llama',
    ),
  ),
  "shunya.lora.dropout": used(
    number(0, { below: 1 }),
    0,
    "share of an adapter's inputs that is dropped while training",
  ),
  "shunya.lora.rank_stabilized": used(boolean, false, "alpha / sqrt(rank) in place of alpha / rank (rsLoRA)"),
} as const satisfies Readonly<Record<string, KeySpec>>;
