/** A worker that encodes: the tokenizer is opened here, since it cannot be sent. */

import { parentPort, workerData } from "node:worker_threads";
import { encodeBatch, type TextTokenizer } from "./encode-batch.ts";
import { encodeInstructions } from "./encode-instructions.ts";
import type { TokenizerModule, WorkerAnswer, WorkerTask } from "./encoders.ts";

const { module, argument } = workerData as TokenizerModule;
const { openTokenizer } = (await import(module)) as { openTokenizer(argument: string): Promise<TextTokenizer> };
const tokenizer = await openTokenizer(argument);

function encode(batch: WorkerTask["batch"]): {
  readonly encoded: NonNullable<WorkerAnswer["encoded"]>;
  readonly buffer: ArrayBuffer;
} {
  if ("pieces" in batch) {
    const tokens = encodeBatch(tokenizer, batch);
    return { encoded: tokens, buffer: tokens.buffer };
  }
  const samples = encodeInstructions(tokenizer, batch);
  return { encoded: samples, buffer: samples.words.buffer };
}

parentPort!.on("message", ({ number, batch }: WorkerTask) => {
  try {
    const { encoded, buffer } = encode(batch);
    parentPort!.postMessage({ number, encoded } satisfies WorkerAnswer, [buffer]);
  } catch (error) {
    parentPort!.postMessage({ number, error: (error as Error).message } satisfies WorkerAnswer);
  }
});
