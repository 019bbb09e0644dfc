/** Conversations and completions to tokens of which some are learned: the same in the main thread and in a worker. */

import { DataError } from "../errors/errors.ts";
import { renderAnswers } from "../tokenizer/chat.ts";
import type { TextTokenizer } from "./encode-batch.ts";
import { type Finding, Findings } from "./findings.ts";
import type { PlacedInstruction } from "./instruction-records.ts";
import type { Instruction } from "./instructions.ts";
import { learnedBit } from "./sample-file.ts";

export interface InstructionBatch {
  readonly instructions: readonly PlacedInstruction[];
  /** After a completion. */
  readonly border: Uint32Array;
  /** T: inputs of a sample. What is longer is cut at its end. */
  readonly seqLength: number;
}

export interface EncodedSamples {
  /** Of all samples, one after another: the token, and `learnedBit` where it is learned. */
  readonly words: Uint32Array<ArrayBuffer>;
  /** Of each sample: its words, and how many targets count. */
  readonly lengths: readonly number[];
  readonly targets: readonly number[];
  readonly largestId: number;
  /** The least T with which a sample that was left out would have a target; undefined where none was. */
  readonly leastSeqLength: number | undefined;
  readonly findings: readonly Finding[];
}

/** @throws DataError that names the place of a text on which the tokenizer fails; UsageError, ModelError for a template that is none */
export function encodeInstructions(
  tokenizer: TextTokenizer,
  { instructions, border, seqLength }: InstructionBatch,
): EncodedSamples {
  const findings = new Findings();
  const samples: Uint32Array[] = [];
  const targets: number[] = [];
  let largestId = 0;
  let leastSeqLength: number | undefined;
  for (const { instruction, file, line } of instructions) {
    const place = `${file}:${line}`;
    const marked = markText(instruction, tokenizer);
    if (typeof marked === "string") {
      findings.note("refused", `${place} (${marked})`);
      continue;
    }
    const whole = atPlace(place, () => wordsOf(marked, tokenizer, border));
    const words = whole.subarray(0, seqLength + 1);
    const count = words.subarray(1).reduce((sum, word) => sum + Number(word >= learnedBit), 0);
    if (count === 0) {
      const first = whole.subarray(1).findIndex((word) => word >= learnedBit) + 1;
      if (first > 0) leastSeqLength = Math.min(leastSeqLength ?? first, first);
      findings.note(first > 0 ? "cutAnswers" : "emptyAnswer", first > 0 ? `${place} (at token ${first + 1})` : place);
      continue;
    }
    if (whole.length > words.length) findings.note("cutConversation", `${place} (${whole.length} tokens)`);
    samples.push(words);
    targets.push(count);
    for (const word of words) largestId = Math.max(largestId, word % learnedBit);
  }
  const lengths = samples.map(({ length }) => length);
  const words = new Uint32Array(lengths.reduce((a, b) => a + b, 0));
  let filled = 0;
  for (const sample of samples) {
    words.set(sample, filled);
    filled += sample.length;
  }
  return { words, lengths, targets, largestId, leastSeqLength, findings: findings.list() };
}

interface MarkedText {
  readonly text: string;
  /** Characters that are learned, in order. */
  readonly learned: readonly { readonly start: number; readonly end: number }[];
  /** What a tokenizer puts before a text stands in it already, and its end as well. */
  readonly isWhole: boolean;
}

/** @returns why a template refuses a conversation, if it does */
function markText(instruction: Instruction, { settings = {} }: TextTokenizer): MarkedText | string {
  if ("prompt" in instruction) {
    const { prompt, completion } = instruction;
    const text = prompt + completion;
    return { text, learned: [{ start: prompt.length, end: text.length }], isWhole: false };
  }
  const { messages, learnedFrom } = instruction;
  try {
    const { text, answers } = renderAnswers(messages, settings);
    const before = learnedFrom === 0 ? [] : renderAnswers(messages.slice(0, learnedFrom), settings).answers;
    return { text, learned: answers.slice(before.length), isWhole: true };
  } catch (error) {
    if (!(error instanceof DataError)) throw error;
    return error.message;
  }
}

function wordsOf({ text, learned, isWhole }: MarkedText, tokenizer: TextTokenizer, border: Uint32Array): Uint32Array {
  const ids = tokenizer.encode(text);
  const words = Uint32Array.from(ids);
  for (const [from, end] of tokenRanges(tokenizer, text, ids, learned))
    for (let i = from; i < end; i++) words[i] = ids[i]! + learnedBit;
  if (isWhole) return words;
  return Uint32Array.of(...leadOf(tokenizer), ...words, ...border.map((id) => id + learnedBit));
}

/** The tokens that hold a character of each range. @param ids of the whole text */
function tokenRanges(
  tokenizer: TextTokenizer,
  text: string,
  ids: Uint32Array,
  ranges: MarkedText["learned"],
): (readonly [from: number, end: number])[] {
  const borders = ranges.flatMap(({ start, end }) => [start, end]);
  const parts = [0, ...borders].map((at, i) => tokenizer.encode(text.slice(at, borders[i] ?? text.length)));
  const counts = parts.map(({ length }) => length);
  if (isSame(ids, parts)) {
    let at = 0;
    const places = counts.map((count) => (at += count));
    return ranges.map((_, i) => [places[2 * i]!, places[2 * i + 1]!]);
  }
  // A token reaches over a border, or the tokenizer puts something before each text: what comes before a border tells where it is.
  return ranges.map(({ start, end }) => {
    const from = commonTokens(ids, tokenizer.encode(text.slice(0, start)));
    const before = tokenizer.encode(text.slice(0, end));
    const to = commonTokens(ids, before);
    return [from, to === before.length ? to : to + 1];
  });
}

function isSame(ids: Uint32Array, parts: readonly Uint32Array[]): boolean {
  let at = 0;
  for (const part of parts) for (const id of part) if (ids[at++] !== id) return false;
  return at === ids.length;
}

/** Tokens at the beginning that are the same. */
function commonTokens(one: Uint32Array, other: Uint32Array): number {
  let at = 0;
  while (at < other.length && one[at] === other[at]) at++;
  return at;
}

const leads = new WeakMap<TextTokenizer, Uint32Array>();

/** What the tokenizer puts before a text, as before a prompt that is generated from. */
function leadOf(tokenizer: TextTokenizer): Uint32Array {
  const known = leads.get(tokenizer);
  if (known) return known;
  const [plain] = tokenizer.encode("a");
  const around = tokenizer.encode("a", { addSpecialTokens: true });
  const lead = around.slice(0, Math.max(0, around.indexOf(plain!)));
  leads.set(tokenizer, lead);
  return lead;
}

function atPlace<T>(place: string, body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw new DataError(`${place} cannot be encoded: ${(error as Error).message}`, { cause: error });
  }
}
