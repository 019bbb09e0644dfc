/** The flags of `shunya generate`. */
import { Command } from "commander";
import { generationConfigName } from "../checkpoint/generation-json.ts";
import { UsageError } from "../errors/errors.ts";
import { generateDefaults } from "../generation/text-generator.ts";
import { defaultThreads } from "../launch/environment.ts";
import { createLogger } from "../log/logger.ts";
import type { Prompts } from "./generate.ts";
import { mostRanks, mostThreads } from "./limits.ts";
import { parseBytes, parseInteger, parseShareOrAll, parseTemperature } from "./parse.ts";
import { machineShareBytes } from "./room.ts";

interface GenerateFlags {
  readonly model: string;
  readonly adapter?: string;
  readonly prompt?: string;
  readonly jsonl?: string;
  readonly chat?: true;
  readonly tokenizer?: string;
  readonly tokens: number;
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly seed: number;
  readonly stop?: readonly string[];
  readonly ranks: number;
  readonly config?: string;
  readonly threads?: number;
  readonly deviceMemory?: number;
}

const collectText = (text: string, before: readonly string[] = []): readonly string[] => [...before, text];

/** @throws UsageError */
function promptsOf({ prompt, jsonl }: GenerateFlags): Prompts {
  if (prompt !== undefined && jsonl !== undefined)
    throw new UsageError("--prompt and --jsonl are two ways to say what to continue; give one of them");
  if (prompt !== undefined) return { prompt };
  if (jsonl !== undefined) return { jsonl };
  throw new UsageError("nothing to continue; give --prompt TEXT, or --jsonl FILE for many prompts");
}

const left = (value: number | string): string => `what the model's ${generationConfigName} says, or else ${value}`;

export function generateCommand(): Command {
  const { tokens, temperature, topK, seed } = generateDefaults;
  return new Command("generate")
    .description("continue a prompt with a trained model")
    .requiredOption(
      "--model <dir>",
      "a folder with config.json and weights, a checkpoint or a folder of them, or owner/name of a model on Hugging Face",
    )
    .option("--adapter <dir>", "LoRA adapters of the model")
    .option("--prompt <text>", "what to continue")
    .option(
      "--jsonl <file>",
      'many prompts: lines such as {"prompt": "..."}; - reads standard input; one JSON line each is written',
    )
    .option("--chat", "the prompt is what a user says: the tokenizer's chat template makes the text of it")
    .option("--tokenizer <dir|file>", "a tokenizer.json (default: the model folder's, or else bytes are tokens)")
    .option("--tokens <n>", "how many tokens at most", parseInteger(1), tokens)
    .option(
      "--temperature <t>",
      `0 takes the likeliest token each time (default: ${left(temperature)})`,
      parseTemperature,
    )
    .option("--top-k <n>", `draw from the n likeliest tokens (default: ${left(topK)})`, parseInteger(1))
    .option(
      "--top-p <share>",
      `draw from the likeliest tokens that have this share of the probability (default: ${left("all")})`,
      parseShareOrAll,
    )
    .option("--seed <n>", "of the draws", parseInteger(0), seed)
    .option("--stop <text>", "end before this text; may be repeated", collectText)
    .option(
      "--ranks <n>",
      "ranks: prompts are dealt to them, or they share the model as the configuration says",
      parseInteger(1, mostRanks),
      1,
    )
    .option(
      "--config <file>",
      "a DeepSpeed-style JSON file: stage, precision, where parameters live (default: fp32, whole)",
    )
    .option("--device-memory <size>", "budget of each rank (default: a share of this machine's memory)", parseBytes)
    .option("--threads <n>", "threads of a rank (default: cores / ranks)", parseInteger(1, mostThreads))
    .action(async (flags: GenerateFlags) => {
      const { runGenerate } = await import("./generate.ts");
      const { model, adapter, tokenizer, config, ranks } = flags;
      const job = {
        ...{ model, adapter, tokenizer, config, ranks },
        threads: flags.threads ?? defaultThreads(ranks),
        deviceMemoryBytes: flags.deviceMemory ?? machineShareBytes(ranks),
        options: {
          ...{ tokens: flags.tokens, temperature: flags.temperature, topK: flags.topK, topP: flags.topP },
          ...{ seed: flags.seed, stop: flags.stop, chat: flags.chat },
        },
      };
      process.exitCode = await runGenerate(job, promptsOf(flags), createLogger());
    });
}
