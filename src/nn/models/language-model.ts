/** What all language models here have in common, so that a caller need not ask which one it has. */
import type { Tape } from "../../tensor/tape.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { Module } from "../module.ts";

/** What a language model is trained on: token ids and, shifted by one, what follows them. Both i32 [batch, seq]. */
export interface LanguageBatch {
  readonly inputs: Tensor;
  readonly targets?: Tensor;
}

export interface LanguageModel extends Module {
  /** The mean cross-entropy of the next tokens. */
  forward(tape: Tape, batch: LanguageBatch): Promise<Tensor>;
  /** Logits of the token that follows a sequence: [1, vocabulary] for inputs [1, seq]. */
  nextLogits(tape: Tape, inputs: Tensor): Promise<Tensor>;
}
