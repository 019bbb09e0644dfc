/** The tokenizer beside the model that was trained with it, so that the folder is all that generation needs. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { writeAtomically } from "../checkpoint/atomic-file.ts";
import { UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { chatTemplateName, settingsName, tokenizerName } from "../tokenizer/open.ts";
import { byteTokenizer, type Tokenizer } from "../tokenizer/tokenizer.ts";

/** What belongs to a tokenizer.json in a published folder, if it is there. */
const names = [tokenizerName, settingsName, "special_tokens_map.json", chatTemplateName];

/**
 * Another tokenizer in the output folder would pass for that of the model that is written there.
 * @throws UsageError where there is one that this run would leave there, or would replace unasked
 */
export function checkTokenizerThere(output: string, tokenizer: Tokenizer, overwrite: boolean): void {
  const there = join(output, tokenizerName);
  if (!existsSync(there)) return;
  if (tokenizer === byteTokenizer)
    throw new UsageError(
      `--output ${output} holds a ${tokenizerName}, and in this run bytes are tokens: give --tokenizer ${output}, or another --output`,
    );
  if (overwrite || contentOf(there).equals(contentOf(tokenizer.name))) return;
  throw new UsageError(
    `--output ${output} holds another ${tokenizerName} than ${tokenizer.name}: name another folder, or (in training) give --overwrite to replace it`,
  );
}

function contentOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${reasonOf(error)}`);
  }
}

/** @throws ModelError where the folder cannot be written, UsageError where the tokenizer cannot be read */
export async function copyTokenizer(tokenizer: Tokenizer, output: string): Promise<void> {
  if (tokenizer === byteTokenizer) return;
  for (const name of names) {
    const from = name === tokenizerName ? tokenizer.name : join(dirname(tokenizer.name), name);
    if (existsSync(from)) await writeAtomically(join(output, name), [contentOf(from)]);
  }
}
