/** Who encodes: this thread, or workers. */

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import { DataError } from "../errors/errors.ts";
import { type EncodableBatch, encodeBatch, type TextTokenizer } from "./encode-batch.ts";
import { type EncodedSamples, encodeInstructions, type InstructionBatch } from "./encode-instructions.ts";

/** How a worker comes by a tokenizer, which cannot be sent to it: `(await import(module)).openTokenizer(argument)`. */
export interface TokenizerModule {
  /** A URL. */
  readonly module: string;
  readonly argument: string;
}

export interface Encoders extends AsyncDisposable {
  /** So many batches may be given before the first is waited for. */
  readonly mostAhead: number;
  /** @throws DataError */
  encode(batch: EncodableBatch): Promise<Uint32Array>;
  /** @throws DataError */
  encodeInstructions(batch: InstructionBatch): Promise<EncodedSamples>;
}

export const inThisThread = (tokenizer: TextTokenizer): Encoders => ({
  mostAhead: 1,
  encode: async (batch) => encodeBatch(tokenizer, batch),
  encodeInstructions: async (batch) => encodeInstructions(tokenizer, batch),
  [Symbol.asyncDispose]: async () => {},
});

/** What a worker is sent, and what it answers. */
export interface WorkerTask {
  readonly number: number;
  readonly batch: EncodableBatch | InstructionBatch;
}
export interface WorkerAnswer {
  readonly number: number;
  readonly encoded?: Uint32Array | EncodedSamples;
  readonly error?: string;
}

interface Waiting {
  resolve(encoded: never): void;
  reject(error: Error): void;
}

/** They encode while this thread reads, parses and writes. */
export class WorkerEncoders implements Encoders {
  readonly mostAhead: number;
  readonly #workers: readonly Worker[];
  readonly #waiting = new Map<number, Waiting>();
  #failure: Error | undefined;
  #given = 0;

  constructor(tokenizer: TokenizerModule, count: number) {
    this.#workers = Array.from({ length: count }, () => startWorker(tokenizer));
    this.mostAhead = 2 * count;
    for (const worker of this.#workers) {
      worker.on("message", (answer: WorkerAnswer) => this.#take(answer));
      worker.on("error", (error) => this.#fail(error));
    }
  }

  encode(batch: EncodableBatch): Promise<Uint32Array> {
    return this.#give(batch);
  }

  encodeInstructions(batch: InstructionBatch): Promise<EncodedSamples> {
    return this.#give(batch);
  }

  #give<T>(batch: WorkerTask["batch"]): Promise<T> {
    const number = this.#given++;
    return new Promise((resolve, reject) => {
      if (this.#failure) return reject(this.#failure);
      this.#waiting.set(number, { resolve, reject });
      this.#workers[number % this.#workers.length]!.postMessage({ number, batch } satisfies WorkerTask);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }

  #take({ number, encoded, error }: WorkerAnswer): void {
    const waiting = this.#waiting.get(number);
    this.#waiting.delete(number);
    if (encoded) waiting?.resolve(encoded as never);
    else waiting?.reject(new DataError(error!));
  }

  /** A worker that ends takes what it was given with it. */
  #fail(error: Error): void {
    this.#failure ??= new DataError(`the tokenizer failed: ${error.message}`, { cause: error });
    for (const { reject } of this.#waiting.values()) reject(this.#failure);
    this.#waiting.clear();
  }
}

function startWorker(workerData: TokenizerModule): Worker {
  if (!import.meta.url.endsWith(".ts"))
    return new Worker(new URL("./encode-worker.js", import.meta.url), { workerData });
  // In a checkout: Node 20 does not take a loader for the first module of a worker.
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve("tsx/package.json"));
  const loader = new URL("dist/esm/api/index.mjs", tsx).href;
  const entry = new URL("./encode-worker.ts", import.meta.url).href;
  const begin = `import("${loader}").then(({ register }) => { register(); return import("${entry}"); })`;
  return new Worker(begin, { workerData, eval: true });
}
