/** Everything that launcher and ranks say to each other, over the channel that Node opens between parent and child. */
import { errorCodeOf } from "./exit-codes.ts";

/** The last words of a rank that threw. `code` is Shunya's or Node's, where the error has one. */
export interface RankErrorMessage {
  readonly type: "error";
  readonly name: string;
  readonly code: string | undefined;
  readonly message: string;
  readonly stack: string | undefined;
}

/** What an entry module and whoever launched it want to tell each other; anything that structured cloning carries. */
export interface DataMessage {
  readonly type: "data";
  readonly payload: unknown;
}

/** This rank makes swap files in these folders: whoever ends it must remove them. */
export interface SwapMessage {
  readonly type: "swap";
  readonly parents: readonly string[];
}

/** This rank got SIGTERM: somebody who knows only of processes wants the run to stop. */
export interface AskedMessage {
  readonly type: "asked";
}

/** Stop at the next step border. */
export interface StopMessage {
  readonly type: "stop";
}

export type RankMessage = RankErrorMessage | SwapMessage | AskedMessage | DataMessage;
export type LauncherMessage = StopMessage | DataMessage;

/** An entry module may use the channel for messages of its own; those are undefined here. */
export function asRankMessage(raw: unknown): RankMessage | undefined {
  const type = typeOf(raw);
  if (type === "swap" && !Array.isArray((raw as SwapMessage).parents)) return undefined;
  const isKnown = type === "error" || type === "swap" || type === "asked" || type === "data";
  return isKnown ? (raw as RankMessage) : undefined;
}

export function asLauncherMessage(raw: unknown): LauncherMessage | undefined {
  const type = typeOf(raw);
  return type === "stop" || type === "data" ? (raw as LauncherMessage) : undefined;
}

export function errorMessage(error: unknown): RankErrorMessage {
  if (!(error instanceof Error)) {
    return { type: "error", name: "Error", code: undefined, message: String(error), stack: undefined };
  }
  return { type: "error", name: error.name, code: errorCodeOf(error), message: error.message, stack: error.stack };
}

function typeOf(raw: unknown): unknown {
  return typeof raw === "object" && raw !== null && "type" in raw ? raw.type : undefined;
}
