/** The rank's side: who am I, what do I share, and has somebody asked me to stop? */
import { UsageError } from "../errors/errors.ts";
import { type RankEnvironment, readRankEnvironment } from "./environment.ts";
import { asLauncherMessage, type DataMessage, type SwapMessage } from "./messages.ts";

export interface LaunchedRank extends RankEnvironment {
  /** Aborted once the launcher asks for a clean stop (Ctrl-C, SIGTERM or its own signal). */
  readonly stopSignal: AbortSignal;
  /** Tells the launcher in which folders this rank makes swap files, before it does. */
  announceSwap(parents: readonly string[]): void;
  /** Tells the launcher something (its `onMessage` gets it). */
  send(payload: unknown): void;
  /** The next thing that the launcher sends; waiting for it keeps the process alive. */
  receive(): Promise<unknown>;
}

let joined: LaunchedRank | undefined;

/**
 * What the launcher gave this process, or undefined when nobody launched it: then it is a world of one with its own memory.
 * Calling it again returns the same object.
 * @throws UsageError when the environment speaks of ranks that Shunya's launcher did not start.
 */
export function joinLaunched(): LaunchedRank | undefined {
  if (joined) return joined;
  const environment = readRankEnvironment(process.env);
  if (environment === undefined) return undefined;
  if (process.channel === undefined) {
    throw new UsageError(
      `this process has the variables of rank ${environment.rank} but no channel to a launcher: a rank started it, and ranks ` +
        "cannot be started by ranks; run it by itself, or unset SHUNYA_CONTROL_FD and WORLD_SIZE for it",
    );
  }
  joined = { ...environment, ...openChannel() };
  return joined;
}

function openChannel(): Pick<LaunchedRank, "stopSignal" | "announceSwap" | "send" | "receive"> {
  const stop = new AbortController();
  const unread: unknown[] = [];
  const readers: ((payload: unknown) => void)[] = [];
  process.on("message", (raw) => {
    const message = asLauncherMessage(raw);
    if (message?.type === "stop") stop.abort();
    if (message?.type !== "data") return;
    const reader = readers.shift();
    if (reader) reader(message.payload);
    else unread.push(message.payload);
    if (readers.length === 0) process.channel?.unref();
  });
  process.channel?.unref();
  return {
    stopSignal: stop.signal,
    announceSwap: (parents) => {
      process.send?.({ type: "swap", parents } satisfies SwapMessage);
    },
    send: (payload) => {
      process.send?.({ type: "data", payload } satisfies DataMessage);
    },
    receive: () => {
      if (unread.length > 0) return Promise.resolve(unread.shift());
      process.channel?.ref();
      return new Promise((resolve) => readers.push(resolve));
    },
  };
}
