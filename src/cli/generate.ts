/** `shunya generate`: continues a prompt, or many of a JSONL file, with a model folder. */
import { jsonlPrompts, promptBytes } from "../generation/prompts.ts";
import { exitCodes } from "../launch/exit-codes.ts";
import type { Logger } from "../log/logger.ts";
import { RankCrews } from "./generate-crews.ts";
import { dealPrompts, type Teller } from "./generate-deal.ts";
import { answerPrompt, type GenerateJob, type GenerateMessage, openJobGenerator } from "./generate-job.ts";

/** Where prompts come from. */
export type Prompts = { readonly prompt: string } | { readonly jsonl: string };

const write = (text: string): void => void process.stdout.write(text);

/** @returns the exit code @throws ShunyaError */
export async function runGenerate(job: GenerateJob, from: Prompts, logger: Logger): Promise<number> {
  const isMany = "jsonl" in from;
  const prompts = isMany ? jsonlPrompts(nameOf(from.jsonl), promptBytes(from.jsonl), logger.warn) : [from.prompt];
  const tell = isMany ? lineTeller(logger) : textTeller(job.options.chat === true, logger);
  const stop = new AbortController();
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  // A second one ends the process, as it would have without this.
  const listeners = signals.map((signal) => [signal, () => stop.abort()] as const);
  for (const [signal, listener] of listeners) process.once(signal, listener);
  try {
    return job.ranks === 1
      ? await runHere(job, prompts, tell, stop.signal)
      : await runOnRanks(job, prompts, tell, stop.signal, logger);
  } finally {
    for (const [signal, listener] of listeners) process.off(signal, listener);
    if (isMany && from.jsonl === "-") process.stdin.destroy(); // a prompt that is still waited for would keep the process
  }
}

const nameOf = (path: string): string => (path === "-" ? "standard input" : path);

type PromptSource = AsyncIterable<string> | Iterable<string>;

async function runHere(job: GenerateJob, prompts: PromptSource, tell: Teller, signal: AbortSignal): Promise<number> {
  await using generator = await openJobGenerator(job);
  const options = { ...job.options, signal };
  const here = {
    answer: (prompt: string, tellOf: (message: GenerateMessage) => void) =>
      answerPrompt(generator, prompt, options, tellOf),
  };
  return (await dealPrompts(prompts, [here], tell, signal)) ? exitCodes.ok : exitCodes.interrupted;
}

async function runOnRanks(
  job: GenerateJob,
  prompts: PromptSource,
  tell: Teller,
  signal: AbortSignal,
  logger: Logger,
): Promise<number> {
  const ranks = new RankCrews(job, logger);
  try {
    const isComplete = await dealPrompts(prompts, await ranks.open(), tell, signal);
    const { exitCode } = await ranks.end();
    return isComplete || exitCode !== exitCodes.ok ? exitCode : exitCodes.interrupted;
  } catch (error) {
    await ranks.kill();
    throw error;
  }
}

function tellCut(message: GenerateMessage & { readonly type: "cut" }, logger: Logger): void {
  const { promptTokens, longestSequence } = message;
  logger.warn(`the prompt has ${promptTokens} tokens; the model sees the last ${longestSequence} of them`);
}

/** Writes the prompt and, as its characters are complete, what follows it; of a conversation the answer alone. */
function textTeller(isChat: boolean, logger: Logger): Teller {
  let isBegun = false;
  return (prompt, message) => {
    if (message.type === "cut") return tellCut(message, logger);
    // An error comes before anything is written.
    if (!isBegun && !isChat) write(prompt);
    isBegun = true;
    write(message.type === "piece" ? message.text : "\n");
  };
}

/** Halves of surrogate pairs as U+FFFD, which is what becomes of them wherever text is written as it is. */
const wellFormed = (text: string): string => Buffer.from(text).toString();

/** Writes one JSON object a line. */
function lineTeller(logger: Logger): Teller {
  let completion = "";
  return (prompt, message) => {
    if (message.type === "cut") return tellCut(message, logger);
    if (message.type === "piece") completion += message.text;
    else {
      const { tokens, finish } = message;
      const texts = { prompt: wellFormed(prompt), completion: wellFormed(completion) };
      write(`${JSON.stringify({ ...texts, tokens, finish })}\n`);
      completion = "";
    }
  };
}
