/** What the options of a generated text may be. */
import { type Kinds, numberThat, signal, texts, truth, wholeNumber } from "../errors/options.ts";
import type { GenerateOptions } from "./text-generator.ts";

export const generateKinds: Kinds<GenerateOptions> = {
  tokens: wholeNumber(1),
  temperature: numberThat("a number of at least 0", (value) => value >= 0 && Number.isFinite(value)),
  topK: wholeNumber(1),
  topP: numberThat("a number above 0 and of at most 1", (value) => value > 0 && value <= 1),
  seed: wholeNumber(0),
  stop: texts,
  chat: truth,
  signal,
};
