/**
 * Watches the ranks of one launch: the first that fails stops all others, and its error alone is kept; a request to stop is
 * passed on; nothing outlives this process.
 */
import { removeSwapFoldersOf } from "../device/swap-folder.ts";
import { exitCodes } from "./exit-codes.ts";
import { type RankFailure, silentFailure, startFailure, thrownFailure } from "./failure.ts";
import { asRankMessage, type LauncherMessage } from "./messages.ts";
import { type RankCommand, type RankProcess, spawnRank } from "./spawn-rank.ts";

export interface LaunchOutcome {
  /** What the launching process should end with: 0 only if every rank finished by itself. */
  readonly exitCode: number;
  /** The first rank that failed. What the others said afterwards is an echo of it and dropped. */
  readonly failure: RankFailure | undefined;
}

/** Ranks that were told that the group failed have this long to end by themselves. */
const graceMs = 1000;
/** How long after a rank's exit its last messages and output may still arrive. */
const lastWordsMs = 250;

export interface SupervisorHooks {
  /** A rank sent something (LaunchedRank.send). */
  readonly onData: (rank: number, payload: unknown) => void;
  /** A rank was asked to stop from outside. */
  readonly onAsked: () => void;
  /** The failure that ends this launch; called at most once. */
  readonly onFailure: (failure: RankFailure) => void;
  /** A rank is gone, and others may be waiting for it in a collective. */
  readonly onLost: (rank: number, exitCode: number) => void;
}

export class RankSupervisor {
  /** Settles when every rank has ended; never rejects. */
  readonly outcome: Promise<LaunchOutcome>;
  readonly #processes: RankProcess[] = [];
  readonly #hooks: SupervisorHooks;
  readonly #running = new Set<RankProcess>();
  readonly #timers = new Set<NodeJS.Timeout>();
  /** Folders in which ranks make swap files. */
  readonly #swapParents = new Set<string>();
  #failure: RankFailure | undefined;
  #stopping = false;
  #interrupted = false;
  #killed = false;
  #settle: (outcome: LaunchOutcome) => void = () => {};

  constructor(command: RankCommand, hooks: SupervisorHooks) {
    this.#hooks = hooks;
    this.outcome = new Promise((resolve) => {
      this.#settle = resolve;
    });
    process.once("exit", this.#killAtExit);
    try {
      for (let rank = 0; rank < command.ranks; rank++) this.#watch(spawnRank(rank, command));
    } catch (error) {
      this.kill();
      throw error;
    }
  }

  /** Process numbers in rank order; undefined for a rank that could not be started. */
  get pids(): readonly (number | undefined)[] {
    return this.#processes.map((p) => p.child.pid);
  }

  send(rank: number, message: LauncherMessage): void {
    const process = this.#processes[rank];
    // A rank that is ending may close its channel at any moment; its end is what tells.
    if (process?.child.connected) process.child.send(message, () => {});
  }

  /** Asks every rank to stop at its next step border. */
  stop(): void {
    this.#stopping = true;
    for (const { rank } of this.#running) this.send(rank, { type: "stop" });
  }

  /** Ends every rank now. */
  kill(): void {
    this.#killed = true;
    this.#endAll();
  }

  #watch(process: RankProcess): void {
    this.#processes.push(process);
    this.#running.add(process);
    const { child, rank } = process;
    child.on("message", (raw) => {
      const message = asRankMessage(raw);
      if (message?.type === "data") this.#hooks.onData(rank, message.payload);
      if (message?.type === "asked") this.#hooks.onAsked();
      if (message?.type === "swap") for (const parent of message.parents) this.#swapParents.add(parent);
      if (message?.type === "error") this.#fail(thrownFailure(rank, message));
    });
    child.once("error", (error) => {
      if (child.pid !== undefined) return;
      this.#fail(startFailure(rank, error));
      this.#ended(process);
    });
    child.once("exit", (code, signal) => {
      // The channel and standard error may still hold this rank's reason, and a grandchild may hold them open for ever.
      const judge = (): void => {
        if (!this.#running.has(process)) return;
        if (code === 0) this.#hooks.onLost(rank, 0);
        else this.#fail(silentFailure(rank, code, signal, process.stderrTail()));
        this.#ended(process);
      };
      child.once("close", judge);
      this.#after(lastWordsMs, judge);
    });
  }

  #fail(failure: RankFailure): void {
    if (this.#failure !== undefined || this.#killed) return;
    if (this.#stopping && this.#isPartOfStopping(failure)) return;
    this.#failure = failure;
    this.#hooks.onFailure(failure);
    this.#hooks.onLost(failure.rank, failure.exitCode);
    this.#after(graceMs, () => this.#endAll());
  }

  /**
   * Ranks that were asked to stop end as interrupted, perhaps not all at the same border: one that still waits in a collective
   * is told, and its complaint is an echo. The others are left the time they need, to save for instance.
   */
  #isPartOfStopping({ rank, exitCode }: RankFailure): boolean {
    if (exitCode !== exitCodes.interrupted) return this.#interrupted && exitCode === exitCodes.lostRank;
    if (!this.#interrupted) this.#hooks.onLost(rank, exitCode);
    this.#interrupted = true;
    return true;
  }

  #ended(process: RankProcess): void {
    this.#running.delete(process);
    if (this.#running.size > 0) return;
    for (const timer of this.#timers) clearTimeout(timer);
    globalThis.process.off("exit", this.#killAtExit);
    this.#removeSwaps();
    const stopped = this.#stopping || this.#killed ? exitCodes.interrupted : exitCodes.ok;
    this.#settle({ exitCode: this.#failure?.exitCode ?? stopped, failure: this.#failure });
  }

  #endAll(): void {
    for (const { child } of this.#running) child.kill("SIGKILL");
  }

  #after(ms: number, run: () => void): void {
    this.#timers.add(setTimeout(run, ms));
  }

  /** A rank that ends by itself has removed its own; one that was killed could not. */
  #removeSwaps(): void {
    const pids = this.pids.filter((pid) => pid !== undefined);
    removeSwapFoldersOf(pids, [...this.#swapParents]);
  }

  readonly #killAtExit = (): void => {
    this.#endAll();
    this.#removeSwaps();
  };
}
