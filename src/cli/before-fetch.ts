/** What can be known of a command before a model is fetched for it: nobody waits for gigabytes and then learns that a file is missing. */
import { stat } from "node:fs/promises";
import { checkpointsIn } from "../checkpoint/find-training.ts";
import { parseConfigFile } from "../config/json.ts";
import { checkThere } from "../data/source-files.ts";
import { DataError, ModelError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { openTokenizer } from "../tokenizer/tokenizer.ts";
import { checkOutput } from "./destinations.ts";
import { meaningOf } from "./model-flags.ts";

/** Flags of all commands that take a model's name; those that a command has not are left out. */
export interface NamedFiles {
  readonly data?: readonly string[];
  readonly validationData?: readonly string[];
  readonly jsonl?: string;
  readonly config?: string;
  readonly tokenizer?: string;
  readonly adapter?: string;
  readonly resume?: string;
  readonly output?: string;
}

/** @throws ShunyaError for the first of them that cannot be used */
export async function checkNamedFiles(flags: NamedFiles): Promise<void> {
  const { data = [], validationData = [], jsonl, config, tokenizer, adapter, resume, output } = flags;
  for (const named of [data, validationData]) if (named.length > 0) await checkThere(named);
  if (jsonl !== undefined && jsonl !== "-") {
    const found = await stat(jsonl).catch((error: Error) => error);
    if (found instanceof Error) throw new DataError(`--jsonl ${jsonl}: ${reasonOf(found)}`);
    if (found.isDirectory()) throw new DataError(`--jsonl ${jsonl} is a folder; wanted a file of JSON lines`);
  }
  if (config !== undefined) parseConfigFile(config);
  if (tokenizer !== undefined && meaningOf(tokenizer).kind === "path") await openTokenizer(tokenizer);
  if (adapter !== undefined && meaningOf(adapter).kind === "path") {
    const found = await stat(adapter).catch((error: Error) => error);
    if (found instanceof Error) throw new ModelError(`--adapter ${adapter}: ${reasonOf(found)}`);
  }
  if (resume !== undefined) await checkpointsIn(resume);
  if (output !== undefined) await checkOutput(output);
}
