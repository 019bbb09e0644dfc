/** What every rank of `shunya generate` does with a prompt, and what it tells of it. */
import { openGenerator } from "../generation/open-generator.ts";
import type { GenerateOptions, GenerationEnd, TextGenerator } from "../generation/text-generator.ts";

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

export function openJobGenerator(job: GenerateJob): Promise<TextGenerator> {
  const { model, adapter, tokenizer, config, threads, deviceMemoryBytes } = job;
  return openGenerator(model, { adapter, tokenizer, config, threads, deviceMemoryBytes });
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
