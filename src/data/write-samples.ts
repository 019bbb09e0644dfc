/** The one pass that turns conversations and completions into samples of the cache. */

import type { FileHandle } from "node:fs/promises";
import { DataError } from "../errors/errors.ts";
import type { DocumentFile, ReadOptions } from "./documents.ts";
import type { TextTokenizer } from "./encode-batch.ts";
import type { EncodedSamples } from "./encode-instructions.ts";
import type { Encoders } from "./encoders.ts";
import { instructionsOf, type PlacedInstruction } from "./instruction-records.ts";
import type { Instruction } from "./instructions.ts";
import { recordWords } from "./sample-file.ts";
import type { CachedTokens } from "./token-cache.ts";
import { TokenWriter } from "./token-writer.ts";

export interface SampleOptions extends Omit<ReadOptions, "textField"> {
  readonly tokenizer: TextTokenizer;
  readonly encoders: Encoders;
  readonly files: readonly DocumentFile[];
  /** T: inputs of a sample. */
  readonly seqLength: number;
}

/** Characters that are encoded at once. */
const batchLength = 1 << 18;

/**
 * Writes the samples of all files in order. After a completion stands the tokenizer's end of text, or where it has none a line feed; the
 * text of a conversation ends as its template has it. @throws DataError where nothing is left to learn from
 */
export async function writeSamples(
  words: FileHandle,
  index: FileHandle,
  options: SampleOptions,
): Promise<CachedTokens> {
  const { tokenizer, files, findings, seqLength, encoders } = options;
  const border = tokenizer.endOfText === undefined ? tokenizer.encode("\n") : Uint32Array.of(tokenizer.endOfText);
  const writer = new SampleWriter(words, index);
  const ahead: Promise<EncodedSamples>[] = [];
  let waiting: PlacedInstruction[] = [];
  let length = 0;
  let records = 0;
  let leastSeqLength = Number.POSITIVE_INFINITY;
  const take = async (): Promise<void> => {
    const samples = await ahead.shift()!;
    findings.add(samples.findings);
    leastSeqLength = Math.min(leastSeqLength, samples.leastSeqLength ?? Number.POSITIVE_INFINITY);
    await writer.write(samples);
  };
  const give = async (): Promise<void> => {
    const encoded = encoders.encodeInstructions({ instructions: waiting, border, seqLength });
    encoded.catch(() => undefined); // its error is told where it is awaited
    ahead.push(encoded);
    waiting = [];
    length = 0;
    if (ahead.length >= encoders.mostAhead) await take();
  };
  for (const file of files) {
    for await (const placed of instructionsOf(file, options)) {
      records++;
      waiting.push(placed);
      length += lengthOf(placed.instruction);
      if (length >= batchLength) await give();
    }
  }
  if (waiting.length > 0) await give();
  while (ahead.length > 0) await take();
  if (records === 0)
    throw new DataError(`${files[0]!.path} and the files beside it are all empty; wanted conversations`);
  if (writer.count === 0) throw nothingToLearn(options, records, leastSeqLength);
  return { ...(await writer.finish()), documents: records, findings: findings.list() };
}

function lengthOf(instruction: Instruction): number {
  if ("prompt" in instruction) return instruction.prompt.length + instruction.completion.length;
  return instruction.messages.reduce((sum, { content }) => sum + content.length, 0);
}

/** @param leastSeqLength with which one of them would have something to learn */
function nothingToLearn(
  { files, findings, seqLength }: SampleOptions,
  records: number,
  leastSeqLength: number,
): DataError {
  const [worst] = findings.list().toSorted((a, b) => b.count - a.count);
  const why =
    worst?.kind === "refused"
      ? `the chat template refuses them, such as ${worst.places[0]}`
      : Number.isFinite(leastSeqLength)
        ? `their answers begin after ${seqLength} tokens (--seq-length), the first of them after ${leastSeqLength}: give at least ` +
          `--seq-length ${leastSeqLength}, and more for whole answers, if the model takes that`
        : "their answers are empty";
  return new DataError(`${files[0]!.path} has ${records} records, and none is left to learn from: ${why}`);
}

/** Samples on their way into the two files. */
class SampleWriter {
  count = 0;
  readonly #words: TokenWriter;
  readonly #index: TokenWriter;
  #largestId = 0;

  constructor(words: FileHandle, index: FileHandle) {
    this.#words = new TokenWriter(words, 4);
    this.#index = new TokenWriter(index, 4);
  }

  async write({ words, lengths, targets, largestId }: EncodedSamples): Promise<void> {
    let start = this.#words.count;
    await this.#words.write(words);
    const records = lengths.flatMap((length, i) => {
      const record = recordWords({ start, length, targets: targets[i]! });
      start += length;
      return record;
    });
    await this.#index.write(Uint32Array.from(records));
    this.count += lengths.length;
    this.#largestId = Math.max(this.#largestId, largestId);
  }

  async finish(): Promise<Omit<CachedTokens, "documents" | "findings">> {
    await this.#words.flush();
    await this.#index.flush();
    return { tokens: this.#words.count, tokenBytes: 4, largestId: this.#largestId, samples: this.count };
  }
}
