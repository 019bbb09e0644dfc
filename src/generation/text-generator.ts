/** Text from a running model: `for await (const piece of model.generate(prompt))`. */
import { UsageError } from "../errors/errors.ts";
import { anObject, checkArgument, checkOptions, type Kinds, required, text as textKind } from "../errors/options.ts";
import type { LanguageBatch, LanguageModel } from "../nn/models/language-model.ts";
import { encodeInTime } from "../tokenizer/bounded.ts";
import { answerClosing, renderChat } from "../tokenizer/chat.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import type { Engine } from "../zero/engine.ts";
import { generateKinds } from "./option-kinds.ts";
import type { Sampling } from "./sampling.ts";
import { StopText } from "./stop-text.ts";
import { generateTokens, sharesParameters, type TokenFinish } from "./tokens.ts";

export interface GenerateOptions extends Partial<Record<keyof Sampling, number | undefined>> {
  /** Most tokens. Defaults to 200. */
  readonly tokens?: number | undefined;
  /** The text ends before the first of these. */
  readonly stop?: readonly string[] | undefined;
  /**
   * The prompt is what a user says: the tokenizer's chat template makes the text of it that the model answers, and the text ends where
   * the template closes an answer.
   */
  readonly chat?: boolean | undefined;
  /** Ends the text after the token that is being made. Where ranks make it together, one rank's is enough. */
  readonly signal?: AbortSignal | undefined;
}

export interface GenerationEnd {
  /** `stop`: a stop string came; `end`: the model ended the text; `length`: `tokens` are made; `interrupted`: by the signal. */
  readonly finish: "stop" | TokenFinish;
  /** Tokens that were made, those of a stop string included and one that ends the text not. */
  readonly tokens: number;
  readonly promptTokens: number;
}

export type ModelSampling = Omit<Sampling, "seed">;

/** What is not given. */
export const generateDefaults = { tokens: 200, temperature: 0.8, topK: 40, seed: 42 } as const;

export interface TextGeneratorParts {
  readonly engine: Engine<LanguageBatch>;
  /** The engine's. */
  readonly model: LanguageModel;
  readonly tokenizer: Tokenizer;
  /** Tokens that end a text, beside the tokenizer's own. */
  readonly endTokens?: readonly number[];
  /** How tokens are drawn where a call does not say it: as the model's makers want it. Left out: by `generateDefaults`. */
  readonly sampling?: ModelSampling | undefined;
}

const partKinds: Kinds<TextGeneratorParts> = {
  engine: required(anObject),
  model: required(anObject),
  tokenizer: required(anObject),
  sampling: anObject,
  endTokens: { wanted: "a list of token ids", holds: (value) => Array.isArray(value) && value.every(Number.isInteger) },
};

/** With `await using` it takes its engine with it. */
export class TextGenerator implements AsyncDisposable {
  readonly engine: Engine<LanguageBatch>;
  readonly tokenizer: Tokenizer;
  readonly #model: LanguageModel;
  readonly #ends: ReadonlySet<number>;
  /** What the model's makers want; undefined where they do not say. */
  readonly sampling: ModelSampling | undefined;

  /** For an engine that runs already, such as one that trains. */
  constructor(parts: TextGeneratorParts) {
    checkOptions("TextGenerator", parts, partKinds);
    const { engine, model, tokenizer, endTokens = [], sampling } = parts;
    this.sampling = sampling;
    this.engine = engine;
    this.tokenizer = tokenizer;
    this.#model = model;
    const { endOfText } = tokenizer;
    this.#ends = new Set(endOfText === undefined ? endTokens : [endOfText, ...endTokens]);
  }

  /** Tokens of the longest text that the model sees at once. */
  get longestSequence(): number {
    return this.#model.longestSequence;
  }

  /** Whether all ranks make a text together, since they share the parameters; else each may make texts of its own. */
  get sharesModel(): boolean {
    return sharesParameters(this.engine);
  }

  /** The tokens that the model reads first. @throws UsageError, DataError for a chat without a template or one it refuses */
  encode(prompt: string, { chat = false }: Pick<GenerateOptions, "chat"> = {}): Int32Array {
    checkArgument("generate", "prompt", prompt, required(textKind));
    if (prompt === "") throw new UsageError("the prompt is empty; give at least one character");
    const { tokenizer } = this;
    if (!chat) return Int32Array.from(encodeInTime(tokenizer, prompt, { addSpecialTokens: true }));
    const text = renderChat([{ role: "user", content: prompt }], tokenizer.settings, { addGenerationPrompt: true });
    return Int32Array.from(encodeInTime(tokenizer, text));
  }

  /**
   * Yields what follows the prompt, piece by piece as characters are complete, and returns how it ended. It is called between two steps:
   * where `sharesModel` by every rank alike, else by any rank. Leaving the loop early frees what it took, and the engine can go on with
   * anything.
   * @throws UsageError for options that cannot be, and what the engine throws
   */
  async *generate(prompt: string, options: GenerateOptions = {}): AsyncGenerator<string, GenerationEnd> {
    checkOptions("generate", options, generateKinds);
    const sampling = samplingOf(options, this.sampling);
    const most = options.tokens ?? generateDefaults.tokens;
    const closing = options.chat ? answerClosing(this.tokenizer.settings) : undefined;
    const closingTokens = closing === undefined ? [] : this.tokenizer.encode(closing);
    const isOneToken = closingTokens.length === 1;
    const stops = new StopText([...(options.stop ?? []), ...(closing === undefined || isOneToken ? [] : [closing])]);
    const ends = isOneToken ? new Set([...this.#ends, closingTokens[0]!]) : this.#ends;
    const { vocabularySize } = this.tokenizer;
    const ids = this.encode(prompt, options);
    const tokens = generateTokens({ engine: this.engine, model: this.#model }, ids, {
      ...{ ...sampling, tokens: most, vocabularySize, ends, signal: options.signal },
    });
    const characters = this.tokenizer.stream();
    let made = 0;
    const end = (finish: GenerationEnd["finish"]): GenerationEnd => ({
      finish,
      tokens: made,
      promptTokens: ids.length,
    });
    try {
      for (;;) {
        const next = await tokens.next();
        if (!next.done) made++;
        const text = next.done ? characters.end() : characters.push(next.value);
        const certain = stops.push(text) + (next.done && !stops.found ? stops.end() : "");
        if (certain !== "") yield certain;
        if (stops.found) return end("stop");
        if (next.done) return end(next.value);
      }
    } finally {
      await tokens.return("interrupted"); // whoever leaves the loop
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine[Symbol.asyncDispose]();
  }
}

/** @param own of the model */
function samplingOf(options: GenerateOptions, own: ModelSampling = generateDefaults): Sampling {
  return {
    temperature: options.temperature ?? own.temperature,
    topK: options.topK ?? own.topK,
    topP: options.topP ?? own.topP,
    seed: options.seed ?? generateDefaults.seed,
  };
}
