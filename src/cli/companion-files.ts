/**
 * What belongs beside a model that is written, so that its folder is all that generation needs: the tokenizer that it was trained with, and
 * the generation_config.json of the model that it was made from.
 */
import { existsSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { writeAtomically } from "../checkpoint/atomic-file.ts";
import { generationConfigName } from "../checkpoint/generation-json.ts";
import { UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { chatTemplateName, settingsName, tokenizerName } from "../tokenizer/open.ts";
import { byteTokenizer, type Tokenizer } from "../tokenizer/tokenizer.ts";

export interface Companions {
  /** Undefined: not known, and nothing is written. */
  readonly tokenizer: Tokenizer | undefined;
  /** The text of a generation_config.json; undefined: the model has none. */
  readonly generation: string | undefined;
}

/** What belongs to a tokenizer.json in a published folder, if it is there. */
const tokenizerNames = [tokenizerName, settingsName, "special_tokens_map.json", chatTemplateName];

const advice = "name another folder, or (in training) give --overwrite to replace it";

/**
 * Another tokenizer in the output folder would pass for that of the model that is written there, and so would another
 * generation_config.json.
 * @throws UsageError where there is one that this run would leave there, or would replace unasked
 */
export function checkCompanionsThere(output: string, { tokenizer, generation }: Companions, overwrite: boolean): void {
  if (tokenizer) checkTokenizerThere(output, tokenizer, overwrite);
  const there = join(output, generationConfigName);
  if (overwrite || !existsSync(there) || contentOf(there).toString() === generation) return;
  throw new UsageError(`--output ${output} holds a ${generationConfigName} that is not this model's: ${advice}`);
}

function checkTokenizerThere(output: string, tokenizer: Tokenizer, overwrite: boolean): void {
  const there = join(output, tokenizerName);
  if (!existsSync(there)) return;
  if (tokenizer === byteTokenizer)
    throw new UsageError(
      `--output ${output} holds a ${tokenizerName}, and in this run bytes are tokens: give --tokenizer ${output}, or another --output`,
    );
  if (overwrite || contentOf(there).equals(contentOf(tokenizer.name))) return;
  throw new UsageError(`--output ${output} holds another ${tokenizerName} than ${tokenizer.name}: ${advice}`);
}

function contentOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${reasonOf(error)}`);
  }
}

/** After `checkCompanionsThere`. @throws ModelError where the folder cannot be written, UsageError where the tokenizer cannot be read */
export async function copyCompanions({ tokenizer, generation }: Companions, output: string): Promise<void> {
  const there = join(output, generationConfigName);
  if (generation === undefined) await rm(there, { force: true });
  else await writeAtomically(there, [new TextEncoder().encode(generation)]);
  if (tokenizer === undefined || tokenizer === byteTokenizer) return;
  for (const name of tokenizerNames) {
    const from = name === tokenizerName ? tokenizer.name : join(dirname(tokenizer.name), name);
    if (existsSync(from)) await writeAtomically(join(output, name), [contentOf(from)]);
  }
}
