/** A worker that encodes: the tokenizer is opened here, since it cannot be sent. */

import { parentPort, workerData } from "node:worker_threads";
import { encodeBatch, type TextTokenizer } from "./encode-batch.ts";
import type { TokenizerModule, WorkerAnswer, WorkerTask } from "./encoders.ts";

const { module, argument } = workerData as TokenizerModule;
const { openTokenizer } = (await import(module)) as { openTokenizer(argument: string): Promise<TextTokenizer> };
const tokenizer = await openTokenizer(argument);

parentPort!.on("message", ({ number, batch }: WorkerTask) => {
  try {
    const tokens = encodeBatch(tokenizer, batch);
    parentPort!.postMessage({ number, tokens } satisfies WorkerAnswer, [tokens.buffer]);
  } catch (error) {
    parentPort!.postMessage({ number, error: (error as Error).message } satisfies WorkerAnswer);
  }
});
