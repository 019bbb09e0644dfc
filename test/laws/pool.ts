// Rank processes that all laws share: seven, of which a job uses the first N. They live until the test run ends.
import { fileURLToPath } from "node:url";
import { type Launch, launchRanks } from "../../src/launch/launch.ts";
import { createLogger } from "../../src/log/logger.ts";
import type { Job, RankAnswer } from "./jobs.ts";
import type { PoolMessage } from "./rank-worker.ts";

const entry = fileURLToPath(new URL("rank-worker.ts", import.meta.url));

/** What the ranks of one job answered, in rank order. */
export interface JobAnswer extends RankAnswer {
  readonly ranks: readonly RankAnswer[];
}

export class RankPool {
  readonly size: number;
  readonly #launch: Launch;
  readonly #inboxes: { unread: unknown[]; reader?: (payload: unknown) => void }[];
  #previous: Promise<unknown> = Promise.resolve();

  constructor(size: number, arenaBytes: number) {
    this.size = size;
    this.#inboxes = Array.from({ length: size }, () => ({ unread: [] }));
    this.#launch = launchRanks({
      ranks: size,
      entry,
      arenaBytes,
      logger: createLogger({ write: () => {} }),
      onMessage: (rank, payload) => {
        const inbox = this.#inboxes[rank]!;
        const { reader } = inbox;
        delete inbox.reader;
        if (reader) reader(payload);
        else inbox.unread.push(payload);
      },
    });
  }

  /** Trains on the first `worldSize` ranks; jobs wait for each other. Throws what rank 0 threw. */
  async run(worldSize: number, job: Job): Promise<JobAnswer> {
    const ranks = await this.attempt(worldSize, job);
    const failure = ranks.find((r) => r.error)?.error;
    if (failure) throw new Error(`${failure.name}: ${failure.message}`);
    return { ...ranks[0]!, ranks };
  }

  /** The same, with each rank's error in its answer. */
  attempt(worldSize: number, job: Job): Promise<RankAnswer[]> {
    const answers = this.#previous.then(() => this.#attempt(worldSize, job));
    this.#previous = answers.catch(() => undefined);
    return answers;
  }

  /** Ends the ranks. */
  async close(): Promise<void> {
    this.#launch.kill();
    await this.#launch.outcome;
  }

  async #attempt(worldSize: number, job: Job): Promise<RankAnswer[]> {
    this.#tell(0, { type: "clear" });
    await this.#hear(0);
    for (let rank = 0; rank < worldSize; rank++) this.#tell(rank, { type: "train", job, worldSize });
    return Promise.all(Array.from({ length: worldSize }, (_, rank) => this.#hear(rank) as Promise<RankAnswer>));
  }

  #tell(rank: number, message: PoolMessage): void {
    this.#launch.send(rank, message);
  }

  /** The rank's next answer, or an error in its place once the launch has ended. */
  #hear(rank: number): Promise<unknown> {
    const inbox = this.#inboxes[rank]!;
    if (inbox.unread.length > 0) return Promise.resolve(inbox.unread.shift());
    const answer = new Promise<unknown>((resolve) => {
      inbox.reader = resolve;
    });
    const ended = this.#launch.outcome.then(({ failure }) => ({
      records: [],
      weightsHash: "",
      error: { name: "Ended", code: "", message: failure?.text ?? "the rank processes have ended" },
    }));
    return Promise.race([answer, ended]);
  }
}

const shared = globalThis as { shunyaLawPool?: RankPool };

/** The pool of this test run. Address space for 1 GiB a rank, of which only what is touched exists. */
export function lawPool(): RankPool {
  shared.shunyaLawPool ??= new RankPool(7, 2 ** 30);
  return shared.shunyaLawPool;
}

/** Trains on `worldSize` ranks of the shared pool. */
export const run = (worldSize: number, job: Job): Promise<JobAnswer> => lawPool().run(worldSize, job);
