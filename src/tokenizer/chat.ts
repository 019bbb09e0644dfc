/** Conversations as the text that a model was made for: the chat template of a tokenizer_config.json, which is written in Jinja. */

import { Template } from "@huggingface/jinja";
import { DataError, ModelError, UsageError } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";
import { specialText } from "./huggingface.ts";
import type { TokenizerSettings } from "./tokenizer.ts";

export interface ChatMessage {
  /** `system`, `user`, `assistant`, or another that the template knows. */
  readonly role: string;
  readonly content: string;
  /** What else a template may read: names, tool calls. */
  readonly [key: string]: unknown;
}

export interface ChatOptions {
  /** Ends with the beginning of an answer, for a model to go on from. */
  readonly addGenerationPrompt?: boolean;
  /** Values that a template may read beside the messages: `tools`, `enable_thinking`. */
  readonly values?: Readonly<Record<string, unknown>>;
}

/** A whole conversation, and which parts of it an assistant said. */
export interface ChatText {
  readonly text: string;
  /** Of each assistant's message: where it begins in `text`, after its header, and where it ends, with what closes it. */
  readonly answers: readonly { readonly start: number; readonly end: number }[];
}

/** Reading a template takes longer than filling it in. */
const parsed = new Map<string, Template>();

/**
 * The text holds all special tokens that belong to it: encode it without addSpecialTokens.
 * @param settings of the tokenizer
 * @throws UsageError where there is no template, ModelError where it cannot be read, DataError where it refuses the messages
 */
export function renderChat(
  messages: readonly ChatMessage[],
  settings: TokenizerSettings,
  { addGenerationPrompt = false, values = {} }: ChatOptions = {},
): string {
  const template = parseTemplate(templateOf(settings));
  try {
    return template.render({
      ...specialTokensOf(settings),
      ...values,
      messages: messages.map((message) => ({ ...message })),
      add_generation_prompt: addGenerationPrompt,
    });
  } catch (error) {
    throw new DataError(`the chat template refuses these messages: ${printable((error as Error).message)}`, {
      cause: error,
    });
  }
}

/**
 * Renders a conversation and finds the answers in it, for a loss on these alone: an answer is what follows when the conversation
 * before it is rendered with the beginning of an answer.
 * @throws what renderChat throws; DataError where the template writes earlier messages otherwise once later ones follow
 */
export function renderAnswers(
  messages: readonly ChatMessage[],
  settings: TokenizerSettings,
  values?: ChatOptions["values"],
): ChatText {
  const options = values === undefined ? {} : { values };
  const text = renderChat(messages, settings, options);
  const answers = messages.flatMap(({ role }, i) => {
    if (role !== "assistant") return [];
    const before = renderChat(messages.slice(0, i), settings, { ...options, addGenerationPrompt: true });
    const after = renderChat(messages.slice(0, i + 1), settings, options);
    if (!after.startsWith(before) || !text.startsWith(after))
      throw new DataError(
        `message ${i + 1} of a conversation cannot be found in its text: the chat template writes it otherwise when others follow; ` +
          "give conversations that end with their only answer",
      );
    return [{ start: before.length, end: after.length }];
  });
  return { text, answers };
}

/** One template, or several with names, of which `default` is for conversations. */
function templateOf({ chat_template: given }: TokenizerSettings): string {
  const named = Array.isArray(given) ? (given as readonly unknown[]).find(isDefault)?.template : given;
  if (typeof named === "string") return named;
  throw new UsageError(
    "the tokenizer has no chat template (chat_template in its tokenizer_config.json): use one of a model that was made for " +
      "conversations, or add one",
  );
}

function isDefault(entry: unknown): entry is { readonly template: unknown } {
  return (entry as { name?: unknown } | null)?.name === "default";
}

function parseTemplate(source: string): Template {
  const known = parsed.get(source);
  if (known !== undefined) return known;
  try {
    const template = new Template(source);
    parsed.set(source, template);
    return template;
  } catch (error) {
    throw new ModelError(`the chat template cannot be read: ${printable((error as Error).message)}`, { cause: error });
  }
}

/** `bos_token`, `eos_token` and the like, as templates write them. */
function specialTokensOf(settings: TokenizerSettings): Record<string, string> {
  const named = Object.entries(settings).filter(([name]) => name.endsWith("_token"));
  return Object.fromEntries(
    named.flatMap(([name, value]) => {
      const text = specialText(value);
      return text === undefined ? [] : [[name, text]];
    }),
  );
}
