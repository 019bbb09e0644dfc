/** What the native core rejects with, as this project's errors. Names of collectives are filled in by the process group. */
import {
  CommError,
  DesyncError,
  DeviceError,
  InternalError,
  RankLostError,
  type ShunyaError,
} from "../errors/errors.ts";
import type { NativeFailure } from "./native.ts";
import { diskFailure } from "./swap-failure.ts";

/** Words for a collective's tag: which call of which unit at which step. */
export type TagNames = (tag: number) => string;

interface Details {
  rank?: number;
  op?: string;
  tag?: number;
  waitedMs?: number;
  missing?: number[];
  exitCode?: number;
  message?: string;
  ranks?: { rank: number; op: string; tag: number; count: number }[];
}

export function deviceFailure(error: unknown, tagNames: TagNames): ShunyaError {
  const failure = error as NativeFailure;
  const details: Details = typeof failure.details === "string" ? JSON.parse(failure.details) : {};
  const call = details.tag === undefined ? (details.op ?? "a collective") : tagNames(details.tag);
  switch (failure.code) {
    case "TIMEOUT":
      return new CommError(
        `${call}: rank ${(details.missing ?? []).join(", ")} did not arrive within ${details.waitedMs} ms; ` +
          "look at that rank's own output, or give slower ranks a longer deadline",
        { cause: failure },
      );
    case "DESYNC":
      return new DesyncError(
        `ranks called different collectives: ${(details.ranks ?? [])
          .map((r) => `rank ${r.rank} ${r.op} ${tagNames(r.tag)} of ${r.count} elements`)
          .join("; ")}. Every rank must run the same units in the same order`,
        { cause: failure },
      );
    case "ABORTED":
      return new RankLostError(
        details.rank ?? -1,
        `rank ${details.rank} ended (code ${details.exitCode}) while this rank waited in ${call}`,
        { cause: failure },
      );
    case "DISK":
      return diskFailure(failure);
    case "INTERNAL":
      return new InternalError(details.message ?? failure.message);
    default:
      return new DeviceError(details.message ?? failure.message, { cause: failure });
  }
}
