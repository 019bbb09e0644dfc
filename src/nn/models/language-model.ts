/** What all language models here have in common, so that a caller need not ask which one it has. */
import type { Tape } from "../../tensor/tape.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { KeyValueCache, KeyValueShape } from "../key-value-cache.ts";
import type { Module } from "../module.ts";

/** What a language model is trained on: token ids and, shifted by one, what follows them. Both i32 [batch, seq]. */
export interface LanguageBatch {
  readonly inputs: Tensor;
  readonly targets?: Tensor;
}

export interface LanguageModel extends Module {
  /** The mean cross-entropy of the next tokens. */
  forward(tape: Tape, batch: LanguageBatch): Promise<Tensor>;
  /**
   * Logits of the token that follows a sequence: [1, vocabulary] for inputs [1, seq]. With a cache the inputs are what follows the
   * tokens in it, and are in it afterwards; the logits are the same to the bit, however the sequence is cut.
   * @throws ShapeError for a sequence that is too long, and for a text that grows beyond `shortTextTokens` unannounced
   */
  nextLogits(tape: Tape, inputs: Tensor, cache?: KeyValueCache): Promise<Tensor>;
  /** Tokens of the longest sequence that it can be given. */
  readonly longestSequence: number;
  /** A text that grows beyond so many tokens is another one from its first position on: it is read anew. Undefined: none is. */
  readonly shortTextTokens?: number | undefined;
  /** What a cache keeps of a token. */
  readonly keyValueShape: KeyValueShape;
  /** A model of the same shape that shares nothing with this one. */
  twin(): LanguageModel;
}
