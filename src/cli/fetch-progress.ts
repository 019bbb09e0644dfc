/** How fetching a model shows that it moves: one line that rewrites itself on a terminal, now and then a line elsewhere. */
import type { FetchTeller } from "../hub/fetch-model.ts";
import type { Logger } from "../log/logger.ts";
import { formatBytes, formatDuration, formatMany, formatShare } from "../report/numbers.ts";
import { describeTerminal } from "../report/progress.ts";

const secondsBetween = { terminal: 0.2, elsewhere: 5 };

export class FetchProgress implements FetchTeller {
  readonly #title: string;
  readonly #logger: Logger;
  readonly #terminal = describeTerminal(process.stderr, process.env);
  #bytes = 0;
  #begun = { at: 0, heldBytes: 0 };
  #toldAt = 0;
  /** The cursor is behind a line that rewrites itself. */
  #isInLine = false;

  constructor(title: string, logger: Logger) {
    this.#title = title;
    this.#logger = logger;
  }

  begin(files: number, bytes: number, heldBytes: number, folder: string): void {
    this.#bytes = bytes;
    this.#begun = { at: performance.now(), heldBytes };
    this.#toldAt = performance.now();
    const held = heldBytes > 0 ? `, ${formatBytes(heldBytes)} of which are there already` : "";
    this.#logger.info(
      `fetching ${this.#title}: ${formatMany(files, "file")}, ${formatBytes(bytes)}${held}, into ${folder}`,
    );
  }

  progress(heldBytes: number): void {
    const { isTerminal, columns } = this.#terminal;
    const now = performance.now();
    if (now - this.#toldAt < 1000 * (isTerminal ? secondsBetween.terminal : secondsBetween.elsewhere)) return;
    this.#toldAt = now;
    const perSecond = (1000 * Math.max(0, heldBytes - this.#begun.heldBytes)) / (now - this.#begun.at);
    const left = formatDuration((this.#bytes - heldBytes) / perSecond);
    const line = `${this.#title}: ${formatShare(heldBytes, this.#bytes)} of ${formatBytes(this.#bytes)}, ${formatBytes(perSecond)}/s, ${left} left`;
    if (isTerminal) process.stderr.write(`\r\u001b[2K${line.slice(0, columns - 1)}`);
    else this.#logger.info(line);
    this.#isInLine = isTerminal;
  }

  end(): void {
    if (this.#isInLine) process.stderr.write("\r\u001b[2K");
    this.#isInLine = false;
  }

  notice(text: string): void {
    this.end();
    this.#logger.warn(text);
  }
}
