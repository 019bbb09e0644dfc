/** generation_config.json as Hugging Face writes it: how texts of a model end, and how its makers want tokens to be drawn. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ModelError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { describeJson } from "./describe.ts";
import { ConfigReader, type JsonRecord, parseConfigRecord } from "./json-config.ts";

export const generationConfigName = "generation_config.json";

export interface GenerationSettings {
  /** Tokens that end a text; undefined: config.json says. */
  readonly endTokens: readonly number[] | undefined;
  /** Undefined: the file does not say whether tokens are drawn. */
  readonly sampling:
    | {
        /** 0: the likeliest token each time. */
        readonly temperature: number;
        /** Undefined: all tokens. */
        readonly topK: number | undefined;
        readonly topP: number;
      }
    | undefined;
  /** What would make other texts and is not applied: `repetition_penalty 1.05`. */
  readonly notApplied: readonly string[];
}

/** What transformers takes where a file says that tokens are drawn and leaves a number out. */
const drawn = { temperature: 1, topK: 50, topP: 1 } as const;

/** Keys that act on texts and are not known here, with the values that do nothing. */
const neutral: Readonly<Record<string, readonly unknown[]>> = {
  repetition_penalty: [1],
  no_repeat_ngram_size: [0],
  encoder_repetition_penalty: [1],
  min_p: [0],
  typical_p: [1],
  epsilon_cutoff: [0],
  eta_cutoff: [0],
  num_beams: [1],
  penalty_alpha: [0],
  bad_words_ids: [],
  suppress_tokens: [],
  begin_suppress_tokens: [],
  forced_bos_token_id: [],
  forced_eos_token_id: [],
  sequence_bias: [],
  exponential_decay_length_penalty: [],
};

/** The file as it is; undefined where the folder has none. @throws ModelError where it cannot be read */
export async function readGenerationConfig(folder: string): Promise<string | undefined> {
  const path = join(folder, generationConfigName);
  return readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
    throw new ModelError(`${path} cannot be read: ${reasonOf(error, path)}`, { cause: error });
  });
}

/** @param path how errors name it @throws ModelError with every problem found */
export function parseGenerationConfig(text: string, path: string): GenerationSettings {
  const record = parseConfigRecord(text, path, "a JSON object");
  const read = new ConfigReader(record);
  const endTokens = endTokensOf(read);
  const temperature = read.number("temperature", drawn.temperature, Number.POSITIVE_INFINITY);
  const topK = (record.top_k ?? drawn.topK) as number;
  read.check("top_k", Number.isSafeInteger(topK) && topK >= 0, "a whole number of at least 0");
  const topP = (record.top_p ?? drawn.topP) as number;
  read.check("top_p", typeof topP === "number" && topP > 0 && topP <= 1, "a number above 0 and of at most 1");
  const draws = read.flag("do_sample", false);
  if (read.problems.length > 0) throw new ModelError(`${path} cannot be used:\n  ${read.problems.join("\n  ")}`);
  // Where no token is drawn unless it is asked for, what is asked for is drawn from as many.
  const sampling = { temperature: draws ? temperature : 0, topK: topK === 0 ? undefined : topK, topP };
  return {
    endTokens,
    sampling: (record.do_sample ?? undefined) === undefined ? undefined : sampling,
    notApplied: Object.entries(neutral).flatMap(([key, values]) => notApplied(record, key, values)),
  };
}

function endTokensOf(read: ConfigReader): readonly number[] | undefined {
  const value = read.record.eos_token_id ?? undefined;
  if (value === undefined) return undefined;
  const ids: readonly unknown[] = Array.isArray(value) ? value : [value];
  const fits = ids.every((id) => Number.isSafeInteger(id) && (id as number) >= 0);
  read.check("eos_token_id", fits, "a token's id, or a list of ids");
  return fits ? (ids as readonly number[]) : undefined;
}

function notApplied(record: JsonRecord, key: string, values: readonly unknown[]): string[] {
  const value = record[key] ?? undefined;
  return value === undefined || values.includes(value) ? [] : [`${key} ${describeJson(value)}`];
}
