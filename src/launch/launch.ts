/** Starts N ranks on this machine: shared memory first, then the processes that inherit it, then supervision to the end. */
import { closeSync } from "node:fs";
import { mapMemory } from "../device/map-memory.ts";
import { loadNative, type Native } from "../device/native.ts";
import { UsageError } from "../errors/errors.ts";
import type { Logger } from "../log/logger.ts";
import type { SharedDescriptors } from "./environment.ts";
import { type LaunchOutcome, RankSupervisor } from "./supervise.ts";

export interface LaunchOptions {
  /** How many ranks, 1 or more. */
  readonly ranks: number;
  /** Path of the module that every rank runs; TypeScript is fine. */
  readonly entry: string;
  /** What the module finds in process.argv from index 2 on. */
  readonly args?: readonly string[];
  /** Variables added to this process's own environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Size of each rank's device memory. Pages appear when touched, so it may be more than the machine has. */
  readonly arenaBytes: number;
  /** Aborting it asks the ranks for a clean stop. */
  readonly signal?: AbortSignal;
  /** Gets what ranks send with LaunchedRank.send. */
  readonly onMessage?: (rank: number, payload: unknown) => void;
  /** Told of the first failure, and of a first Ctrl-C. */
  readonly logger: Logger;
  /** What the ranks end before they stop. Defaults to a step. */
  readonly unit?: "step" | "token";
}

export interface Launch {
  /** Process numbers in rank order; undefined for a rank that could not be started. */
  readonly pids: readonly (number | undefined)[];
  /** Gives a rank something to read with LaunchedRank.receive. */
  send(rank: number, payload: unknown): void;
  /** Asks the ranks to stop at their next step border. */
  stop(): void;
  /** Ends the ranks now. */
  kill(): void;
  /** Settles when all ranks have ended; never rejects. */
  readonly outcome: Promise<LaunchOutcome>;
}

/**
 * @throws UsageError when `ranks` is not a positive integer.
 * @throws NativeMissingError when the native core is not built.
 * @throws ShunyaError (MEMORY) where the system gives no shared memory.
 */
export function launchRanks(options: LaunchOptions): Launch {
  const { ranks, entry, args = [], env = {}, arenaBytes } = options;
  if (!Number.isInteger(ranks) || ranks < 1) throw new UsageError(`ranks is ${ranks}; wanted an integer of at least 1`);
  const native = loadNative();
  const descriptors = createShared(native, ranks, arenaBytes);
  const control = native.openRegion(descriptors.control, native.controlBytes(ranks));
  const supervisor = startSupervisor();
  const stops = forwardStops(supervisor, options);
  const outcome = supervisor.outcome.finally(() => {
    stops.ignore();
    native.closeRegion(control);
  });
  return {
    pids: supervisor.pids,
    send: (rank, payload) => supervisor.send(rank, { type: "data", payload }),
    stop: () => supervisor.stop(),
    kill: () => supervisor.kill(),
    outcome,
  };

  function startSupervisor(): RankSupervisor {
    try {
      return new RankSupervisor(
        { ranks, entry, args, env, descriptors, arenaBytes },
        {
          onData: options.onMessage ?? (() => {}),
          onAsked: () => stops.askedOfRank(), // no message comes before this call returns
          onFailure: (failure) => options.logger.error(failure.text),
          // Whoever waits for the rank in a collective learns it now and not at the deadline.
          onLost: (rank, exitCode) => native.abortGroup(control, rank, exitCode),
        },
      );
    } finally {
      // The ranks have inherited them by now, and hold the memory.
      closeAll(descriptors);
    }
  }
}

function createShared(native: Native, ranks: number, arenaBytes: number): SharedDescriptors {
  const controlBytes = native.controlBytes(ranks);
  const control = mapMemory(controlBytes, () => native.createSharedMemory(controlBytes));
  const arenas: number[] = [];
  try {
    for (let rank = 0; rank < ranks; rank++)
      arenas.push(mapMemory(arenaBytes, () => native.createSharedMemory(arenaBytes)));
  } catch (error) {
    closeAll({ control, arenas });
    throw error;
  }
  return { control, arenas };
}

function closeAll(descriptors: SharedDescriptors): void {
  for (const descriptor of [descriptors.control, ...descriptors.arenas]) closeSync(descriptor);
}

/** npm passes on a Ctrl-C that the terminal has sent to its children already: that is one request, not two. */
const echoMs = 300;

interface Stops {
  /** A rank was asked in place of this process, or as well: never a second request. */
  askedOfRank(): void;
  /** From here on signals do what they do elsewhere. */
  ignore(): void;
}

/** The first Ctrl-C, SIGTERM or abort asks for a clean stop, the second kills. */
function forwardStops(supervisor: RankSupervisor, options: LaunchOptions): Stops {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  let askedAt: number | undefined;
  const request = (): void => {
    const now = performance.now();
    if (askedAt !== undefined) {
      if (now - askedAt > echoMs) supervisor.kill();
      return;
    }
    askedAt = now;
    options.logger.info(`stopping after this ${options.unit ?? "step"}; once more ends the ranks at once`);
    supervisor.stop();
  };
  for (const signal of signals) process.on(signal, request);
  if (options.signal?.aborted) request();
  else options.signal?.addEventListener("abort", request, { once: true });
  return {
    askedOfRank: () => {
      if (askedAt === undefined) request();
    },
    ignore: () => {
      for (const signal of signals) process.off(signal, request);
      options.signal?.removeEventListener("abort", request);
    },
  };
}
