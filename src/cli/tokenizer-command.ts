/** The flags of `shunya tokenizer`. */
import { Command } from "commander";
import { createLogger } from "../log/logger.ts";
import { parseInteger } from "./parse.ts";

const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

interface TrainFlags {
  readonly data: readonly string[];
  readonly textField: string;
  readonly vocabSize: number;
  readonly output: string;
  readonly special?: readonly string[];
  readonly overwrite?: true;
}

function trainCommand(): Command {
  return new Command("train")
    .description("make a byte-level BPE tokenizer from text, as tokenizer.json and tokenizer_config.json")
    .requiredOption("--data <path...>", "text, JSONL, Parquet, .gz and .zst of any size; folders and patterns")
    .option("--text-field <name>", "field of JSONL and Parquet data that holds the text", "text")
    .requiredOption("--vocab-size <n>", "tokens: special ones, 256 bytes and merges", parseInteger(1, 2 ** 24))
    .requiredOption("--output <dir>", "a folder for the two files")
    .option("--special <token>", "one more special token after <|endoftext|>; may be repeated", collect)
    .option("--overwrite", "replace a tokenizer that is there")
    .action(async (flags: TrainFlags) => {
      const { runTokenizerTrain } = await import("./tokenizer-train.ts");
      const { data, textField, vocabSize, output, special = [], overwrite = false } = flags;
      const options = { data, textField, vocabularySize: vocabSize, output, special, overwrite };
      await runTokenizerTrain(options, createLogger());
    });
}

const tokenizerOption = [
  "--tokenizer <dir|file>",
  "a tokenizer.json, a folder with one, or owner/name on Hugging Face (default: bytes)",
] as const;

interface TextFlags {
  readonly tokenizer?: string;
  readonly addSpecialTokens?: true;
}

export function tokenizerCommand(): Command {
  const encode = new Command("encode")
    .description("text in, ids out: the text given, or standard input")
    .argument("[text]", "what to encode")
    .option(...tokenizerOption)
    .option("--add-special-tokens", "also what the tokenizer puts around a text")
    .action(async (text: string | undefined, flags: TextFlags) => {
      const { runEncode } = await import("./tokenizer.ts");
      await runEncode(text, flags);
    });
  const decode = new Command("decode")
    .description("ids in, text out: the ids given, or standard input; spaces, commas or line ends between them")
    .argument("[ids...]", "what to decode")
    .option(...tokenizerOption)
    .action(async (ids: readonly string[], flags: TextFlags) => {
      const { runDecode } = await import("./tokenizer.ts");
      await runDecode(ids, flags);
    });
  const show = new Command("show")
    .description("a tokenizer's sizes and special tokens, and the pieces of a text with their ids")
    .argument("[text]", "what to cut into pieces")
    .option(...tokenizerOption)
    .option("--add-special-tokens", "also what the tokenizer puts around a text")
    .action(async (text: string | undefined, flags: TextFlags) => {
      const { runShow } = await import("./tokenizer.ts");
      await runShow(text, flags);
    });
  return new Command("tokenizer")
    .description("train a tokenizer, and see what one makes of a text")
    .addCommand(trainCommand())
    .addCommand(encode)
    .addCommand(decode)
    .addCommand(show);
}
