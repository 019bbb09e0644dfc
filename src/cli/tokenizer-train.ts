/** `shunya tokenizer train`: text to a tokenizer's two files, and how well it packs text beside GPT-2's. */
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { writeAtomically } from "../checkpoint/atomic-file.ts";
import { readTexts } from "../data/texts.ts";
import { UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import type { Logger } from "../log/logger.ts";
import { formatBytes, formatCount, formatDuration } from "../report/numbers.ts";
import { renderTable } from "../report/table.ts";
import { wrap } from "../report/wrap.ts";
import { settingsName, tokenizerName } from "../tokenizer/open.ts";
import { renderSettings, renderTokenizer } from "../tokenizer/render.ts";
import { openTokenizer } from "../tokenizer/tokenizer.ts";
import { endOfText, TokenizerTrainer, type TrainedTokenizer } from "../tokenizer/train.ts";
import { preparationTeller } from "./preparation.ts";

export interface TokenizerTrainOptions {
  readonly data: readonly string[];
  /** Of JSONL and Parquet. */
  readonly textField: string;
  readonly vocabularySize: number;
  readonly output: string;
  /** After the end of text. */
  readonly special: readonly string[];
  readonly overwrite: boolean;
}

/** Characters of a document that are held out, or not, at once. */
const pieceLength = 2 ** 14;
/** One piece in so many is held out, from the third on, and no more than so many bytes, since these are kept until the end. */
const heldOutEvery = 20;
const firstHeldOut = 2;
const mostHeldOutBytes = 2 ** 22;

/** The package with GPT-2's vocabulary; it is for this comparison alone, and so is not installed with Shunya. */
const gpt2Package = "gpt-tokenizer";
const gpt2Hint =
  "For a comparison with GPT-2's vocabulary, install the package gpt-tokenizer (4.0.0) where Shunya is installed.";

interface Gpt2Package {
  encode(text: string, options: { readonly disallowedSpecial: Set<string> }): readonly number[];
}

/** Tokens of a text. */
type Count = (text: string) => number;

const write = (text: string): void => void process.stdout.write(text);

/** @throws UsageError, DataError, ModelError */
export async function runTokenizerTrain(options: TokenizerTrainOptions, logger: Logger): Promise<void> {
  const { output, vocabularySize } = options;
  const files = [tokenizerName, settingsName].map((name) => join(output, name));
  const there = files.find((file) => existsSync(file));
  if (there !== undefined && !options.overwrite)
    throw new UsageError(`${there} is there already; name another folder with --output, or give --overwrite`);
  const began = performance.now();
  const trainer = new TokenizerTrainer({ vocabularySize, specialTokens: [endOfText, ...options.special] });
  const heldOut = await feed(trainer, options, logger);
  const trained = trainer.train();
  try {
    mkdirSync(output, { recursive: true });
  } catch (error) {
    throw new UsageError(`--output ${output}: the folder cannot be made: ${reasonOf(error)}`);
  }
  // The settings come last: whoever waits for them finds both.
  await writeAtomically(files[0]!, [Buffer.from(renderTokenizer(trained))]);
  await writeAtomically(files[1]!, [Buffer.from(renderSettings(trained))]);
  warnOfLess(trained, vocabularySize, logger);
  const seconds = (performance.now() - began) / 1000;
  write(`${formatCount(trained.vocabulary.length)} tokens (${formatCount(trained.merges.length)} merges) from `);
  write(`${formatBytes(trained.textBytes)} of text with ${formatCount(trained.words)} different words, `);
  write(`in ${formatDuration(seconds)}.\n\n`);
  write(await renderComparison(output, trained, heldOut));
  write(`\nThe tokenizer is in ${output}; train with --tokenizer ${output}.\n`);
}

/** Trains on all but what is held out. @returns the pieces held out */
async function feed(trainer: TokenizerTrainer, options: TokenizerTrainOptions, logger: Logger): Promise<string[]> {
  const { data, textField } = options;
  const heldOut: string[] = [];
  let heldOutBytes = 0;
  let index = 0;
  const onText = (text: string): void => {
    if (index++ % heldOutEvery === firstHeldOut && heldOutBytes < mostHeldOutBytes) {
      heldOut.push(text);
      heldOutBytes += Buffer.byteLength(text);
    } else trainer.add(text);
  };
  const onProgress = preparationTeller(logger, "read");
  for (const notice of await readTexts(data, { textField, longest: pieceLength, onText, onProgress }))
    logger.warn(notice);
  return heldOut;
}

function warnOfLess(trained: TrainedTokenizer, wanted: number, logger: Logger): void {
  const { vocabulary, droppedOccurrences } = trained;
  if (vocabulary.length < wanted)
    logger.warn(
      `the text gives ${formatCount(vocabulary.length)} tokens and not ${formatCount(wanted)}: no pair of them occurs twice`,
    );
  if (droppedOccurrences > 0)
    logger.warn(
      `the text has too many different words to count them all: the rarest were left out (${formatCount(droppedOccurrences)} occurrences)`,
    );
}

async function renderComparison(
  output: string,
  trained: TrainedTokenizer,
  heldOut: readonly string[],
): Promise<string> {
  const tokenizer = await openTokenizer(output);
  const gpt2 = await countWithGpt2();
  const bytes = heldOut.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  const perToken = (count: Count): string =>
    bytes === 0 ? "-" : (bytes / heldOut.reduce((sum, text) => sum + count(text), 0)).toFixed(2);
  const columns = [
    { header: "bytes per token", align: "left" },
    { header: "trained on", align: "right" },
    { header: "held out", align: "right" },
  ] as const;
  const own = (trained.textBytes / trained.textTokens).toFixed(2);
  const rows = [["this tokenizer", own, perToken((text) => tokenizer.encode(text).length)]];
  if (gpt2) rows.push(["GPT-2's (50,257 tokens)", "", perToken(gpt2)]);
  const about =
    bytes === 0
      ? "The text is too short to hold a part of it out.\n"
      : `Held out: ${formatBytes(bytes)}, spread over the text.\n`;
  return `${renderTable({ columns, rows })}\n${about}${gpt2 ? "" : `${wrap(gpt2Hint)}\n`}`;
}

async function countWithGpt2(): Promise<Count | undefined> {
  try {
    const { encode } = (await import(`${gpt2Package}/encoding/r50k_base`)) as Gpt2Package;
    // A special token in the text is text here.
    return (text) => encode(text, { disallowedSpecial: new Set() }).length;
  } catch {
    return undefined;
  }
}
