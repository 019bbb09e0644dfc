/**
 * What a rank is told through its environment: PyTorch's names for who it is, and the numbers of the descriptors of shared
 * memory that it inherits. Descriptors have no names, so nothing is left behind however a process ends.
 */
import { availableParallelism } from "node:os";
import { UsageError } from "../errors/errors.ts";

/** Descriptor numbers as a rank sees them. */
export interface SharedDescriptors {
  /** The control region of the process group. */
  readonly control: number;
  /** Device memory of every rank, in rank order. */
  readonly arenas: readonly number[];
}

export interface RankEnvironment {
  readonly rank: number;
  readonly worldSize: number;
  /** Which of this machine's ranks this is. */
  readonly localRank: number;
  readonly descriptors: SharedDescriptors;
  /** Size of each rank's arena. */
  readonly arenaBytes: number;
}

/** Standard input, output, error and Node's channel take 0 to 3. */
const controlDescriptor = 4;

/** Threads a rank computes with unless told otherwise: the machine's cores shared out, one at least. */
export function defaultThreads(ranks: number): number {
  return Math.max(1, Math.floor(availableParallelism() / ranks));
}

/** The variables that a launcher adds for one of `ranks` ranks on this machine. */
export function rankVariables(rank: number, ranks: number, arenaBytes: number): Record<string, string> {
  const arenas = Array.from({ length: ranks }, (_, r) => controlDescriptor + 1 + r);
  return {
    RANK: String(rank),
    WORLD_SIZE: String(ranks),
    LOCAL_RANK: String(rank),
    LOCAL_WORLD_SIZE: String(ranks),
    MASTER_ADDR: "127.0.0.1",
    // Nothing listens there: scripts written for PyTorch expect the name.
    MASTER_PORT: process.env.MASTER_PORT ?? "29500",
    SHUNYA_CONTROL_FD: String(controlDescriptor),
    SHUNYA_ARENA_FDS: arenas.join(","),
    SHUNYA_ARENA_BYTES: String(arenaBytes),
  };
}

/**
 * Reads those variables back; undefined in a process that nobody launched.
 * @throws UsageError for a rank without a world, for a world of several ranks without Shunya's own variables, or with broken ones: taking such a process
 * for a world of one would train N unrelated models and say nothing.
 */
export function readRankEnvironment(env: NodeJS.ProcessEnv): RankEnvironment | undefined {
  if (env.SHUNYA_CONTROL_FD === undefined) {
    if (env.WORLD_SIZE === undefined && Number(env.RANK ?? 0) > 0)
      throw new UsageError(
        `RANK is ${env.RANK}, but WORLD_SIZE is not set: this process was started as one of several ranks, and would train ` +
          'alone; start it with "shunya launch --ranks N SCRIPT", or unset RANK to train with one rank',
      );
    if (env.WORLD_SIZE === undefined || env.WORLD_SIZE === "1") return undefined;
    throw new UsageError(
      `WORLD_SIZE is ${env.WORLD_SIZE}, but SHUNYA_CONTROL_FD is not set: this process was started as one of several ranks, ` +
        'yet not by Shunya; start it with "shunya launch --ranks N SCRIPT", or unset WORLD_SIZE to train with one rank',
    );
  }
  const worldSize = integer(env, "WORLD_SIZE", 1);
  const rank = integer(env, "RANK", 0);
  if (rank >= worldSize)
    throw new UsageError(`RANK is ${rank} in a world of ${worldSize}; wanted 0 to ${worldSize - 1}`);
  const arenas = (env.SHUNYA_ARENA_FDS ?? "").split(",").map(Number);
  if (arenas.length !== worldSize || !arenas.every((fd) => Number.isInteger(fd) && fd > controlDescriptor)) {
    throw new UsageError(`SHUNYA_ARENA_FDS is "${env.SHUNYA_ARENA_FDS ?? ""}"; wanted ${worldSize} descriptor numbers`);
  }
  return {
    rank,
    worldSize,
    localRank: integer(env, "LOCAL_RANK", 0),
    descriptors: { control: integer(env, "SHUNYA_CONTROL_FD", controlDescriptor), arenas },
    arenaBytes: integer(env, "SHUNYA_ARENA_BYTES", 0),
  };
}

function integer(env: NodeJS.ProcessEnv, name: string, atLeast: number): number {
  const text = env[name];
  const value = Number(text);
  if (text === undefined || text === "" || !Number.isSafeInteger(value) || value < atLeast) {
    throw new UsageError(
      `${name} is ${text === undefined ? "not set" : `"${text}"`}; wanted an integer of at least ${atLeast}`,
    );
  }
  return value;
}
