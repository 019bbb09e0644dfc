/** Short texts of a model in training, to see what it has learned: the likeliest continuation of each prompt. */
import { dtypeBytes } from "../device/dtype.ts";
import { NumericalError, UsageError } from "../errors/errors.ts";
import { readingBytes } from "../generation/pass-memory.ts";
import { TextGenerator } from "../generation/text-generator.ts";
import { passTokens } from "../generation/tokens.ts";
import type { LanguageBatch, LanguageModel } from "../nn/models/language-model.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import type { Engine } from "../zero/engine.ts";

export interface Sample {
  readonly prompt: string;
  /** What follows it; null where the model's logits are no numbers any more. */
  readonly text: string | null;
}

/** Long enough to tell words from noise, short enough not to be waited for. */
const sampleTokens = 48;

export class SampleTexts {
  readonly #generator: TextGenerator;
  readonly #model: LanguageModel;
  readonly #prompts: readonly string[];

  constructor(
    engine: Engine<LanguageBatch>,
    parts: { readonly model: LanguageModel; readonly tokenizer: Tokenizer; readonly prompts: readonly string[] },
  ) {
    this.#generator = new TextGenerator({ engine, model: parts.model, tokenizer: parts.tokenizer });
    this.#model = parts.model;
    this.#prompts = parts.prompts;
  }

  /** Every rank calls it, between two steps. */
  async make(): Promise<Sample[]> {
    const samples: Sample[] = [];
    for (const prompt of this.#prompts) samples.push({ prompt, text: await this.#continue(prompt) });
    return samples;
  }

  /** A model that diverged ends the run by its own rules, and not here. */
  async #continue(prompt: string): Promise<string | null> {
    let text = "";
    try {
      for await (const piece of this.#generator.generate(prompt, { temperature: 0, tokens: sampleTokens }))
        text += piece;
      return text;
    } catch (error) {
      if (error instanceof NumericalError) return null;
      throw error;
    }
  }

  /**
   * Whether the device budgets of all ranks hold the passes beside what is held between two steps: asked once, as a sample must not end
   * a run. Unit by unit they gather at most what a forward pass of training does.
   * @throws UsageError for a prompt without tokens
   */
  async fits(): Promise<boolean> {
    const { engine } = this.#generator;
    const { sizes, residences } = engine.plan;
    const { dtype } = residences.parameters;
    const { longestSequence } = this.#model;
    const lengths = this.#prompts.map((prompt) => this.#generator.encode(prompt).length);
    if (lengths.includes(0))
      throw new UsageError("--sample-prompt: a prompt has no tokens; give at least one character");
    const capacity = Math.min(longestSequence, Math.max(...lengths) + sampleTokens);
    const passes = await readingBytes(this.#model, { capacity, passTokens, dtype });
    const own = passes + dtypeBytes[dtype] * sizes.liveParameters.elements <= engine.device.ledger.room("device");
    const ranks = await engine.group.exchange(Float64Array.of(Number(own)), "room for samples");
    return ranks.every(([fits]) => fits === 1);
  }
}
