/** How a rank's end is judged and put into words. */
import { errorCodeExitCode, exitCodes } from "./exit-codes.ts";
import type { RankErrorMessage } from "./messages.ts";

export interface RankFailure {
  readonly rank: number;
  /** What the launcher should end with. */
  readonly exitCode: number;
  /** What to show, once. */
  readonly text: string;
}

/** A rank that told its error. User mistakes are shown without a stack: the message says what to do. */
export function thrownFailure(rank: number, error: RankErrorMessage): RankFailure {
  const exitCode = errorCodeExitCode(error.code);
  const commonJs = /^(.*?):\d+:\d+: ERROR: Top-level await .*"cjs"/m.exec(error.message);
  if (commonJs) return { rank, exitCode: exitCodes.user, text: `rank ${rank}: ${commonJsAdvice(commonJs[1]!)}` };
  const showsStack = exitCode === exitCodes.internal && error.stack !== undefined;
  return { rank, exitCode, text: `rank ${rank}: ${showsStack ? error.stack : error.message}` };
}

/** TypeScript follows the nearest package.json, and what `npm init` writes means CommonJS. */
const commonJsAdvice = (script: string): string =>
  `${script} awaits at its top level, which only ES modules can, and its package.json makes it CommonJS: ` +
  'set "type": "module" there, or name the script .mts';

/** A rank that ended without a word. `stderrTail` is what it printed last, if that was not shown already. */
export function silentFailure(
  rank: number,
  code: number | null,
  signal: NodeJS.Signals | null,
  stderrTail: string,
): RankFailure {
  const how = signal === null ? `exited with code ${code} before it was done` : `was ended by ${signal}${hint(signal)}`;
  const tail = stderrTail.trim();
  const last = tail === "" ? "" : `\nIts last output was:\n${tail}`;
  // A rank that is still starting dies of a signal that it would pass on later.
  const asked: readonly (NodeJS.Signals | null)[] = ["SIGINT", "SIGHUP", "SIGTERM"];
  const isInterrupted = code === exitCodes.interrupted || asked.includes(signal);
  const exitCode = isInterrupted ? exitCodes.interrupted : exitCodes.lostRank;
  return { rank, exitCode, text: `rank ${rank}: ${how}${last}` };
}

/** A rank that could not be started. */
export function startFailure(rank: number, error: Error): RankFailure {
  return { rank, exitCode: exitCodes.lostRank, text: `rank ${rank}: could not be started: ${error.message}` };
}

function hint(signal: NodeJS.Signals): string {
  switch (signal) {
    case "SIGKILL":
      return (
        "; if nobody sent it, the system's out-of-memory killer may be the cause (the kernel's log tells): " +
        "use a smaller micro-batch, a higher ZeRO stage or a --device-memory that this machine has"
      );
    case "SIGBUS":
      return "; shared memory could not be had: the machine or its container is out of memory";
    case "SIGSEGV":
    case "SIGILL":
    case "SIGABRT":
      return "; that is a crash of native code, and a bug in Shunya unless the script loads native code of its own";
    default:
      return "";
  }
}
