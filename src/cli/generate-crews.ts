/** The ranks of `shunya generate --ranks N` as crews: each by itself where it holds the whole model, else all of them together. */
import { fileURLToPath } from "node:url";
import { type Launch, launchRanks } from "../launch/launch.ts";
import type { LaunchOutcome } from "../launch/supervise.ts";
import { defaultArenaBytes } from "../launch/world.ts";
import type { Logger } from "../log/logger.ts";
import type { Crew } from "./generate-deal.ts";
import type { GenerateJob } from "./generate-job.ts";
import type { PromptMessage, RankMessage } from "./generate-rank.ts";

/** As this module is: source or compiled. */
const entry = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./generate-rank.ts" : "./generate-rank.js", import.meta.url),
);

export class RankCrews {
  readonly #job: GenerateJob;
  readonly #launch: Launch;
  /** By the rank that tells: what is done with its next message; undefined once there are no more ranks. */
  readonly #listeners = new Map<number, (message: RankMessage | undefined) => void>();
  #hasEnded = false;

  constructor(job: GenerateJob, logger: Logger) {
    this.#job = job;
    this.#launch = launchRanks({
      ranks: job.ranks,
      entry,
      arenaBytes: defaultArenaBytes(),
      logger,
      unit: "token",
      onMessage: (rank, message) => this.#listeners.get(rank)?.(message as RankMessage),
    });
    void this.#launch.outcome.then(() => {
      this.#hasEnded = true;
      for (const listener of this.#listeners.values()) listener(undefined);
    });
    this.#send(this.#ranks, job);
  }

  /** Once the model is open. None where the ranks have failed, which was told. */
  async open(): Promise<readonly Crew[]> {
    const opened = await new Promise<RankMessage | undefined>((resolve) => this.#listeners.set(0, resolve));
    if (opened?.type !== "opened") return [];
    return opened.sharesModel ? [this.#crew(0, this.#ranks)] : this.#ranks.map((rank) => this.#crew(rank, [rank]));
  }

  /** Lets the ranks end what they are at. */
  end(): Promise<LaunchOutcome> {
    this.#send(this.#ranks, null);
    return this.#launch.outcome;
  }

  kill(): Promise<LaunchOutcome> {
    this.#launch.kill();
    return this.#launch.outcome;
  }

  get #ranks(): readonly number[] {
    return Array.from({ length: this.#job.ranks }, (_, rank) => rank);
  }

  #send(ranks: readonly number[], message: GenerateJob | PromptMessage): void {
    for (const rank of ranks) this.#launch.send(rank, message);
  }

  /** @param teller the one of `ranks` that tells of their text */
  #crew(teller: number, ranks: readonly number[]): Crew {
    return {
      answer: (prompt, tell) =>
        new Promise((resolve) => {
          if (this.#hasEnded) return resolve(false);
          this.#listeners.set(teller, (message) => {
            if (message === undefined) return resolve(false);
            if (message.type === "opened") return;
            tell(message);
            if (message.type === "end") resolve(message.finish !== "interrupted");
          });
          this.#send(ranks, prompt);
        }),
    };
  }
}
