/** Conversations as the text that a model was made for: the chat template of a tokenizer_config.json, which is written in Jinja. */

import { Template } from "@huggingface/jinja";
import { DataError, ModelError, UsageError } from "../errors/errors.ts";
import { anObject, checkArgument, checkOptions, type Kind, type Kinds, required, truth } from "../errors/options.ts";
import { printable } from "../errors/printable.ts";
import { boundedRange, DeadlineError, renderMilliseconds, within } from "./bounded.ts";
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

const optionKinds: Kinds<ChatOptions> = { addGenerationPrompt: truth, values: anObject };

const messagesKind: Kind = required({
  wanted: "a list of messages { role, content }, both text",
  holds: (value) =>
    Array.isArray(value) &&
    value.every((message) => typeof message?.role === "string" && typeof message.content === "string"),
});

/** A whole conversation, and which parts of it an assistant said. */
export interface ChatText {
  readonly text: string;
  /** Where an assistant's message begins in `text`, after its header, and where it ends, with what closes it but no blanks after that. */
  readonly answers: readonly { readonly start: number; readonly end: number }[];
}

/** Reading a template takes longer than filling it in. */
const parsed = new Map<string, Template>();

/** Which file the template in some settings is from, for messages. */
const templateFiles = new WeakMap<TokenizerSettings, string>();

export const noteTemplateFile = (settings: TokenizerSettings, file: string): void =>
  void templateFiles.set(settings, file);

/**
 * The text holds all special tokens that belong to it: encode it without addSpecialTokens.
 * @param settings of the tokenizer
 * @throws UsageError where there is no template, ModelError where it cannot be read or takes no end, DataError where it refuses the
 * messages
 */
export function renderChat(
  messages: readonly ChatMessage[],
  settings: TokenizerSettings,
  options: ChatOptions = {},
): string {
  checkArgument("renderChat", "messages", messages, messagesKind);
  checkArgument("renderChat", "settings", settings, required(anObject));
  checkOptions("renderChat", options, optionKinds);
  const { addGenerationPrompt = false, values = {} } = options;
  return render(messages, { settings, source: templateOf(settings) }, { addGenerationPrompt, values });
}

interface SourceOfSettings {
  readonly settings: TokenizerSettings;
  /** The template, as it is or with marks. */
  readonly source: string;
}

function render(
  messages: readonly ChatMessage[],
  { settings, source }: SourceOfSettings,
  { addGenerationPrompt = false, values = {} }: ChatOptions,
): string {
  const name = nameOf(settings);
  const template = parseTemplate(source, name);
  const items = {
    ...specialTokensOf(settings),
    ...values,
    messages: messages.map((message) => ({ ...message })),
    add_generation_prompt: addGenerationPrompt,
    [rangeName]: boundedRange,
  };
  try {
    return within(renderMilliseconds, () => template.render(items));
  } catch (error) {
    if (error instanceof DeadlineError)
      throw new ModelError(
        `${name} was not done with a conversation after ${renderMilliseconds / 1000} s; look for a loop in it that does not end, or give ` +
          "another tokenizer",
        { cause: error },
      );
    throw new DataError(`${name} refuses these messages: ${printable((error as Error).message)}`, { cause: error });
  }
}

/** "the chat template", and of which file it is where that is known. */
function nameOf(settings: TokenizerSettings): string {
  const file = templateFiles.get(settings);
  return file === undefined ? "the chat template" : `the chat template of ${printable(file)}`;
}

/**
 * Renders a conversation and finds the answers in it, for a loss on these alone: what the template has in {% generation %} blocks, or
 * where it has none what follows when the conversation before an answer is rendered with the beginning of an answer.
 * @throws what renderChat throws; DataError where the template writes earlier messages otherwise once later ones follow
 */
export function renderAnswers(
  messages: readonly ChatMessage[],
  settings: TokenizerSettings,
  values?: ChatOptions["values"],
): ChatText {
  checkArgument("renderAnswers", "messages", messages, messagesKind);
  checkArgument("renderAnswers", "settings", settings, required(anObject));
  const options = values === undefined ? {} : { values };
  const marked = withMarks(templateOf(settings));
  if (marked !== undefined) {
    if (messages.some(({ content }) => marks.test(content)))
      throw new DataError("a message has a character U+F8D0 or U+F8D1, which marks answers here; leave it out");
    return readMarks(render(messages, { settings, source: marked }, options));
  }
  const text = renderChat(messages, settings, options);
  const answers = messages.flatMap(({ role, content }, i) => {
    if (role !== "assistant") return [];
    const before = renderChat(messages.slice(0, i), settings, { ...options, addGenerationPrompt: true });
    const after = renderChat(messages.slice(0, i + 1), settings, options);
    if (!after.startsWith(before) || !text.startsWith(after))
      throw new DataError(
        `message ${i + 1} of a conversation cannot be found in its text: the chat template writes it otherwise when others follow; ` +
          "give conversations that end with their only answer, or a template with {% generation %} blocks",
      );
    return [
      { start: before.length, end: before.length + closedLength(text.slice(before.length, after.length), content) },
    ];
  });
  return { text, answers };
}

/** What a template writes at the end of an answer, such as `<|im_end|>`; undefined where that is nothing, or not to be told. */
export function answerClosing(settings: TokenizerSettings): string | undefined {
  const content = "answer";
  const messages = [
    { role: "user", content: "question" },
    { role: "assistant", content },
  ];
  const { text, answers } = renderAnswers(messages, settings);
  const { start, end } = answers.at(-1) ?? { start: 0, end: 0 };
  const said = text.slice(start, end);
  const at = said.lastIndexOf(content);
  const closing = at === -1 ? "" : said.slice(at + content.length).trim();
  return closing === "" ? undefined : closing;
}

/** Up to what closes an answer: a line feed after its last token is written by nobody. */
function closedLength(said: string, content: string): number {
  const at = said.indexOf(content.trim());
  const closing = at === -1 ? "" : said.slice(at + content.trim().length);
  return closing.trim() === "" ? said.length : said.trimEnd().length;
}

/** Characters for private use. */
const [beginMark, endMark] = ["\uF8D0", "\uF8D1"];
const marks = /[\uF8D0\uF8D1]/;

/** The template writes a mark at the borders of its generation blocks; undefined where it has none. */
function withMarks(template: string): string | undefined {
  const marked = template.replaceAll(
    /\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}/g,
    (_, before: string, end: string | undefined, after: string) =>
      // Between two blocks, since a template's blocks take the blanks around them along and its values do not.
      `{%${before} if true %}{{ "${end ? endMark : beginMark}" }}{% endif ${after}%}`,
  );
  return marked === template ? undefined : marked;
}

function readMarks(marked: string): ChatText {
  const answers: { start: number; end: number }[] = [];
  let text = "";
  for (const [i, part] of marked.split(marks).entries()) {
    if (i % 2 === 1) answers.push({ start: text.length, end: text.length + part.length });
    text += part;
  }
  return { text, answers };
}

/** One template, or several with names, of which `default` is for conversations. */
function templateOf({ chat_template: given }: TokenizerSettings): string {
  const named = Array.isArray(given) ? (given as readonly unknown[]).find(isDefault)?.template : given;
  if (typeof named === "string") return named;
  throw new UsageError(
    "the tokenizer has no chat template (chat_template in tokenizer_config.json, or chat_template.jinja, beside its tokenizer.json): use one of a model that was made for " +
      "conversations, or add one",
  );
}

function isDefault(entry: unknown): entry is { readonly template: unknown } {
  return (entry as { name?: unknown } | null)?.name === "default";
}

/** What a template calls `range` here. */
const rangeName = "shunya_range";
const prelude = `{% set range = ${rangeName} %}`;

function parseTemplate(source: string, name: string): Template {
  const known = parsed.get(source);
  if (known !== undefined) return known;
  try {
    const template = new Template(source);
    // As a statement of its own: text before a template would change which line feeds belong to its blocks.
    template.parsed.body.unshift(...new Template(prelude).parsed.body);
    parsed.set(source, template);
    return template;
  } catch (error) {
    throw new ModelError(`${name} cannot be read: ${printable((error as Error).message)}`, { cause: error });
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
