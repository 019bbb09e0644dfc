/** Where a run writes to, checked before it begins: nobody trains for an hour and then learns that a folder is read-only. */
import { once } from "node:events";
import { createWriteStream, type WriteStream } from "node:fs";
import { mkdtemp, rmdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { UsageError } from "../errors/errors.ts";
import type { Logger } from "../log/logger.ts";

/**
 * Makes a folder where the output will be made, and takes it away again: access rights alone say too much to root, and too
 * little about file systems that hold no folders. A run that is refused later leaves nothing. @throws UsageError
 */
export async function checkOutput(folder: string): Promise<void> {
  const fail = (why: string): never => {
    throw new UsageError(`--output ${folder} cannot be written: ${why}; name a folder that exists or can be made`);
  };
  for (let at = resolve(folder); ; at = dirname(at)) {
    const found = await stat(at).catch((error: NodeJS.ErrnoException) => error);
    if (found instanceof Error) {
      // Inside what is not a folder, the parent will say so.
      if ((found.code !== "ENOENT" && found.code !== "ENOTDIR") || at === dirname(at)) fail(found.message);
      continue;
    }
    if (!found.isDirectory()) fail(`${at} is a file`);
    const probe = await mkdtemp(join(at, ".shunya-")).catch((error: Error) => fail(error.message));
    await rmdir(probe);
    return;
  }
}

export interface LineLogOptions {
  /** That named the file. */
  readonly flag: keyof typeof nouns;
  readonly inputs: readonly string[];
  readonly goesOn: boolean;
  readonly logger: Logger;
}

const nouns = { "--log-json": "the log", "--trace": "the trace" } as const;

/** A file that grows while training goes on. A disk that fills up costs the file, not the training. */
export class LineLog implements AsyncDisposable {
  readonly #stream: WriteStream;

  private constructor(stream: WriteStream, onError: (error: Error) => void) {
    this.#stream = stream;
    stream.on("error", onError);
  }

  /**
   * Makes the file. One that is there is emptied, unless a run goes on in it.
   * @param inputs files that the run reads @throws UsageError
   */
  static async open(path: string, { flag, inputs, goesOn, logger }: LineLogOptions): Promise<LineLog> {
    const input = inputs.find((file) => resolve(file) === resolve(path));
    if (input !== undefined)
      throw new UsageError(`${flag} ${path} is also a file that this run reads; give it a name of its own`);
    const stream = createWriteStream(path, { flags: goesOn ? "a" : "w" });
    await once(stream, "open").catch((error: Error) => {
      throw new UsageError(`${flag} ${path} cannot be written: ${error.message}`);
    });
    return new LineLog(stream, (error) =>
      logger.warnOnce(path, `${nouns[flag]} ${path} ends here, training goes on: ${error.message}`),
    );
  }

  write(line: string): void {
    if (!this.#stream.destroyed) this.#stream.write(line);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#stream.closed) return;
    const closed = new Promise<void>((resolve) => this.#stream.once("close", resolve));
    this.#stream.end();
    await closed;
  }
}
