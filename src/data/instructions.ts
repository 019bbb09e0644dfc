/** Records that a model learns answers from: conversations, and prompts with a completion. */

import type { ChatMessage } from "../tokenizer/chat.ts";
import type { Findings } from "./findings.ts";
import { isProblem, nameType, type Problem } from "./record-text.ts";

export type Instruction =
  | {
      readonly messages: readonly ChatMessage[];
      /** Answers before this message are not learned. */
      readonly learnedFrom: number;
    }
  | { readonly prompt: string; readonly completion: string };

/** Those that a record is recognised by. */
export const instructionFields = ["messages", "prompt", "completion"] as const;

/** `human`, `gpt` and the like are of other formats: a template would write them down as they are. */
const knownRoles = ["system", "developer", "user", "assistant", "tool"];

/** A record without the text field, but with messages, or a prompt and a completion. @param value one of a JSONL file, or a table's row */
export const holdsInstruction = (value: object, textField: string): boolean =>
  !Object.hasOwn(value, textField) && isInstruction(value);

/** With messages, or a prompt and a completion, whatever else there is. */
export function isInstruction(value: object): boolean {
  return Object.hasOwn(value, "messages") || (Object.hasOwn(value, "prompt") && Object.hasOwn(value, "completion"));
}

/** @param value the record @param place where it is @returns what it holds, or what is wrong with it */
export function instructionOf(value: unknown, place: string, findings: Findings): Instruction | Problem {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    const detail = nameType(value);
    return { kind: "notObject", detail, reason: `${detail} where an object is wanted` };
  }
  const record = value as Record<string, unknown>;
  const { tools } = record;
  if (Array.isArray(tools) ? tools.length > 0 : tools !== undefined && tools !== null)
    return { kind: "hasTools", reason: "a conversation with tools" };
  const read = readInstruction(record);
  if (!isProblem(read) && textsOf(read).some((text) => /\p{Surrogate}/u.test(text)))
    findings.note("halfCharacter", place);
  return read;
}

const textsOf = (instruction: Instruction): string[] =>
  "messages" in instruction
    ? instruction.messages.map(({ content }) => content)
    : [instruction.prompt, instruction.completion];

function readInstruction({ messages, prompt, completion, ...others }: Record<string, unknown>): Instruction | Problem {
  if (messages !== undefined && messages !== null) return conversationOf(messages, 0, "messages");
  if (prompt === undefined || completion === undefined) {
    const fields = Object.keys(others).slice(0, 8);
    const found = fields.length === 0 ? "nothing of them" : `the fields ${fields.join(", ")}`;
    return { kind: "noInstruction", reason: `found ${found}` };
  }
  if (Array.isArray(prompt) && Array.isArray(completion)) {
    const wrong = [problemOf(prompt, "prompt"), problemOf(completion, "completion")].find((found) => found);
    return wrong ?? conversationOf([...prompt, ...completion], prompt.length, "prompt and completion");
  }
  const wrong = [problemOfText(prompt, "prompt"), problemOfText(completion, "completion")].find((found) => found);
  if (wrong) return wrong;
  if (completion === "") return { kind: "emptyAnswer", reason: "an empty completion" };
  return { prompt: prompt as string, completion: completion as string };
}

function conversationOf(value: unknown, learnedFrom: number, field: string): Instruction | Problem {
  const wrong = problemOf(value, field);
  if (wrong) return wrong;
  const messages = value as readonly ChatMessage[];
  const answers = messages.slice(learnedFrom).filter(({ role }) => role === "assistant");
  if (answers.length === 0) return { kind: "noAnswer", reason: "a conversation without an answer to learn" };
  if (answers.some(({ content }) => content.trim() === ""))
    return { kind: "emptyAnswer", reason: "a conversation with an empty answer" };
  return { messages, learnedFrom };
}

/** What is wrong with a list of messages. */
function problemOf(value: unknown, field: string): Problem | undefined {
  const notMessages = (detail: string): Problem => ({ kind: "notMessages", detail, reason: detail });
  if (!Array.isArray(value)) return notMessages(`${field}: ${nameType(value)} where a list is wanted`);
  for (const [i, message] of value.entries()) {
    const at = `${field}[${i}]`;
    if (typeof message !== "object" || message === null || Array.isArray(message))
      return notMessages(`${at}: ${nameType(message)} where { role, content } is wanted`);
    const { role, content } = message as Record<string, unknown>;
    if (typeof role !== "string") return notMessages(`${at}.role: ${nameType(role)} where text is wanted`);
    if (!knownRoles.includes(role)) {
      const detail = `${at}.role: ${JSON.stringify(role.slice(0, 20))}`;
      return { kind: "unknownRole", detail, reason: `${detail}; known are ${knownRoles.join(", ")}` };
    }
    if (typeof content !== "string") return notMessages(`${at}.content: ${nameType(content)} where text is wanted`);
  }
  return undefined;
}

function problemOfText(value: unknown, field: string): Problem | undefined {
  if (typeof value === "string") return undefined;
  const detail = `${field}: ${nameType(value)} where text is wanted`;
  return { kind: "notMessages", detail, reason: detail };
}
