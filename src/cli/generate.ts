/** `shunya generate`: continues a prompt, or many of a JSONL file, with a model folder. */
import { fileURLToPath } from "node:url";
import { jsonlPrompts, promptBytes } from "../generation/prompts.ts";
import { exitCodes } from "../launch/exit-codes.ts";
import { launchRanks } from "../launch/launch.ts";
import { defaultArenaBytes } from "../launch/world.ts";
import type { Logger } from "../log/logger.ts";
import { answerPrompt, type GenerateJob, type GenerateMessage, openJobGenerator } from "./generate-job.ts";
import type { PromptMessage } from "./generate-rank.ts";

/** Where prompts come from. */
export type Prompts = { readonly prompt: string } | { readonly jsonl: string };

/** Shows what becomes of a prompt. */
type Teller = (prompt: string, message: GenerateMessage) => void;

const write = (text: string): void => void process.stdout.write(text);

/** @returns the exit code @throws ShunyaError */
export async function runGenerate(job: GenerateJob, from: Prompts, logger: Logger): Promise<number> {
  const isMany = "jsonl" in from;
  const prompts = isMany ? jsonlPrompts(nameOf(from.jsonl), promptBytes(from.jsonl), logger.warn) : [from.prompt];
  const tell = isMany ? lineTeller(logger) : textTeller(job.options.chat === true, logger);
  return job.ranks === 1 ? await runHere(job, prompts, tell) : await runOnRanks(job, prompts, tell, logger);
}

const nameOf = (path: string): string => (path === "-" ? "standard input" : path);

type PromptSource = AsyncIterable<string> | Iterable<string>;

async function runHere(job: GenerateJob, prompts: PromptSource, tell: Teller): Promise<number> {
  const stop = new AbortController();
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  // A second one ends the process, as it would have without this.
  const listeners = signals.map((signal) => [signal, () => stop.abort()] as const);
  for (const [signal, listener] of listeners) process.once(signal, listener);
  try {
    await using generator = await openJobGenerator(job);
    const options = { ...job.options, signal: stop.signal };
    for await (const prompt of prompts)
      if (!(await answerPrompt(generator, prompt, options, (message) => tell(prompt, message))))
        return exitCodes.interrupted;
    return exitCodes.ok;
  } finally {
    for (const [signal, listener] of listeners) process.off(signal, listener);
  }
}

async function runOnRanks(job: GenerateJob, prompts: PromptSource, tell: Teller, logger: Logger): Promise<number> {
  let onMessage: (message: GenerateMessage) => void = () => {};
  const launch = launchRanks({
    ranks: job.ranks,
    entry: fileURLToPath(
      new URL(import.meta.url.endsWith(".ts") ? "./generate-rank.ts" : "./generate-rank.js", import.meta.url),
    ),
    arenaBytes: defaultArenaBytes(),
    logger,
    unit: "token",
    onMessage: (_rank, message) => onMessage(message as GenerateMessage),
  });
  const send = (message: GenerateJob | PromptMessage): void => {
    for (let rank = 0; rank < job.ranks; rank++) launch.send(rank, message);
  };
  const ended = launch.outcome.then(() => undefined);
  const answer = (prompt: string): Promise<GenerateMessage | undefined> => {
    const end = new Promise<GenerateMessage>((resolve) => {
      onMessage = (message) => {
        tell(prompt, message);
        if (message.type === "end") resolve(message);
      };
    });
    send(prompt);
    return Promise.race([end, ended]);
  };
  send(job);
  try {
    for await (const prompt of prompts) {
      const end = await answer(prompt);
      if (end === undefined) break; // the ranks are gone, and their failure was told
      if (end.type === "end" && end.finish === "interrupted") {
        await launch.outcome;
        return exitCodes.interrupted;
      }
    }
  } catch (error) {
    launch.kill();
    await launch.outcome;
    throw error;
  }
  send(null);
  return (await launch.outcome).exitCode;
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
