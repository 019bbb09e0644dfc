/** What a process of Shunya ends with, so that scripts and schedulers can tell causes apart without reading text. */
import type { ErrorCode } from "../errors/errors.ts";

export const exitCodes = {
  ok: 0,
  /** A bug of ours, or an error that the user's own script threw. */
  internal: 1,
  /** Something that was given cannot be used, or the machine lacks something: change it and run again. */
  user: 2,
  memory: 3,
  lostRank: 4,
  numerical: 5,
  /** The disk tier: no room, a drive that fails, bytes that changed, a file that somebody deleted. */
  disk: 6,
  /** Stopped on request; the shells' number for Ctrl-C. */
  interrupted: 130,
} as const;

const byErrorCode: Readonly<Record<ErrorCode, number>> = {
  CONFIG: exitCodes.user,
  USAGE: exitCodes.user,
  DATA: exitCodes.user,
  MODEL: exitCodes.user,
  CHECKPOINT: exitCodes.user,
  SHAPE: exitCodes.user,
  DTYPE: exitCodes.user,
  DISPOSED: exitCodes.user,
  NOT_GATHERED: exitCodes.user,
  DEVICE: exitCodes.user,
  NATIVE_MISSING: exitCodes.user,
  MEMORY: exitCodes.memory,
  COMM: exitCodes.lostRank,
  DESYNC: exitCodes.lostRank,
  RANK_LOST: exitCodes.lostRank,
  NUMERICAL: exitCodes.numerical,
  DISK: exitCodes.disk,
  INTERRUPTED: exitCodes.interrupted,
  INTERNAL: exitCodes.internal,
};

/** The exit code for anything that was thrown. By its code, not its class: a script may have loaded Shunya from elsewhere. */
export function errorExitCode(error: unknown): number {
  return errorCodeExitCode(errorCodeOf(error));
}

/** The same for an error that came from another process, of which only the code is left. */
export function errorCodeExitCode(code: string | undefined): number {
  return code !== undefined && Object.hasOwn(byErrorCode, code) ? byErrorCode[code as ErrorCode] : exitCodes.internal;
}

/** An error's `code`, Shunya's or Node's. */
export function errorCodeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}
