/** Whether a model has a row for every token. */

import { UsageError } from "../errors/errors.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";

/** @throws UsageError where the tokenizer has tokens that the model has not */
export function checkVocabulary(
  { name, vocabularySize: tokens }: Pick<Tokenizer, "name" | "vocabularySize">,
  vocabularySize: number,
): void {
  if (tokens <= vocabularySize) return;
  throw new UsageError(
    `the tokenizer ${name} has ${tokens} tokens, and the model's vocabulary ends at ${vocabularySize}: use the tokenizer that ` +
      "the model was made for, or a model with a larger vocab_size",
  );
}
