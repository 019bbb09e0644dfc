/** The file of `--trace`: events of all ranks as they come; whole JSON once it is closed, and readable before. */
import type { Logger } from "../log/logger.ts";
import { traceBegin, traceEnd } from "../report/trace-events.ts";
import { LineLog } from "./destinations.ts";
import type { TraceMessage } from "./trace-rank.ts";

export class TraceFile implements AsyncDisposable {
  readonly #file: LineLog;
  readonly #path: string;
  readonly #logger: Logger;

  private constructor(file: LineLog, path: string, logger: Logger) {
    this.#file = file;
    this.#path = path;
    this.#logger = logger;
    file.write(traceBegin);
  }

  /** @param inputs files that the run reads @throws UsageError */
  static async open(
    path: string,
    { inputs, logger }: { inputs: readonly string[]; logger: Logger },
  ): Promise<TraceFile> {
    return new TraceFile(await LineLog.open(path, { flag: "--trace", inputs, goesOn: false, logger }), path, logger);
  }

  write({ events, endsInStep }: TraceMessage): void {
    this.#file.write(events);
    if (endsInStep !== undefined)
      this.#logger.warnOnce(
        this.#path,
        `the trace ${this.#path} has as many events as it may and ends in step ${endsInStep}; training goes on`,
      );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#file.write(traceEnd);
    await this.#file[Symbol.asyncDispose]();
  }
}
