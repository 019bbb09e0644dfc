/** What every rank of `shunya generate` does with a prompt, and what it tells of it. */
import { generationConfigName } from "../checkpoint/generation-json.ts";
import { openGenerator } from "../generation/open-generator.ts";
import type { GenerateOptions, GenerationEnd, ModelSampling, TextGenerator } from "../generation/text-generator.ts";
import { createLogger } from "../log/logger.ts";

/** What the command line asks for, as plain data. */
export interface GenerateJob {
  readonly model: string;
  /** A folder with adapters of the model. */
  readonly adapter?: string | undefined;
  /** Undefined: the model folder's, or else bytes. */
  readonly tokenizer?: string | undefined;
  /** A DeepSpeed-style file. Undefined: fp32, whole on the device. */
  readonly config?: string | undefined;
  readonly ranks: number;
  readonly threads: number;
  readonly deviceMemoryBytes: number;
  readonly options: Omit<GenerateOptions, "signal">;
}

/** What becomes of one prompt, in this order. */
export type GenerateMessage =
  /** The prompt is longer than the model: it reads only the end. */
  | { readonly type: "cut"; readonly promptTokens: number; readonly longestSequence: number }
  | { readonly type: "piece"; readonly text: string }
  | ({ readonly type: "end" } & GenerationEnd);

/** Says what the model's makers want and the command line leaves open. */
export async function openJobGenerator(job: GenerateJob): Promise<TextGenerator> {
  const { model, adapter, tokenizer, config, threads, deviceMemoryBytes } = job;
  const generator = await openGenerator(model, { adapter, tokenizer, config, threads, deviceMemoryBytes });
  const notice = samplingNotice(job.options, generator.sampling);
  if (notice !== undefined) createLogger({ rank: generator.engine.group.rank }).info(notice);
  return generator;
}

/** @returns undefined where nothing is taken from the model */
export function samplingNotice(options: GenerateOptions, own: ModelSampling | undefined): string | undefined {
  if (!own) return undefined;
  const { temperature, topK = "all", topP } = own;
  const says = `as the model's ${generationConfigName} says:`;
  if ((options.temperature ?? temperature) === 0)
    return options.temperature === undefined ? `${says} the likeliest token each time; --temperature draws` : undefined;
  const taken = [
    options.temperature === undefined ? `temperature ${temperature}` : "",
    options.topK === undefined ? `top-k ${topK}` : "",
    options.topP === undefined ? `top-p ${topP}` : "",
  ].filter((text) => text !== "");
  return taken.length === 0 ? undefined : `${says} ${taken.join(", ")}`;
}

/** @returns whether to go on with another prompt */
export async function answerPrompt(
  generator: TextGenerator,
  prompt: string,
  options: GenerateOptions,
  tell: (message: GenerateMessage) => void,
): Promise<boolean> {
  const { longestSequence } = generator;
  const promptTokens = generator.encode(prompt, options).length;
  if (promptTokens > longestSequence) tell({ type: "cut", promptTokens, longestSequence });
  const pieces = generator.generate(prompt, options);
  for (;;) {
    const next = await pieces.next();
    if (next.done) {
      tell({ type: "end", ...next.value });
      return next.value.finish !== "interrupted";
    }
    tell({ type: "piece", text: next.value });
  }
}
