/**
 * Error classes. A `ShunyaError` is something a user can act on: it has a stable `code`, says what was found, what was wanted
 * and what to do. An `InternalError` is our own bug and says so.
 */

import { printable } from "./printable.ts";

export type ErrorCode =
  | "CONFIG"
  | "SHAPE"
  | "DTYPE"
  | "MEMORY"
  | "COMM"
  | "DESYNC"
  | "RANK_LOST"
  | "DATA"
  | "MODEL"
  | "CHECKPOINT"
  | "DISPOSED"
  | "NOT_GATHERED"
  | "NUMERICAL"
  | "USAGE"
  | "DEVICE"
  | "DISK"
  | "INTERRUPTED"
  | "NATIVE_MISSING"
  | "INTERNAL";

export class ShunyaError extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

// --- what a user gave ---

/** One problem in a configuration: where, what was found, what is wanted, how to repair it. */
export interface ConfigProblem {
  readonly path: string;
  /** From 1; unknown for values that do not come from a file. */
  readonly line?: number | undefined;
  readonly column?: number | undefined;
  /** An error keeps the configuration from being used; a warning does not. */
  readonly level: "error" | "warning";
  readonly message: string;
  /** For a slip of syntax: the line of the file, and below it a caret under the place. */
  readonly excerpt?: string | undefined;
}

/** All problems of a configuration at once. */
export class ConfigError extends ShunyaError {
  readonly problems: readonly ConfigProblem[];
  constructor(file: string, problems: readonly ConfigProblem[]) {
    const lines = problems.map((p) => {
      const where = p.line === undefined ? "" : `line ${p.line}: `;
      const excerpt = p.excerpt === undefined ? "" : `\n${p.excerpt.replace(/^/gm, "    | ")}`;
      return `  ${where}${printable(p.path)}: ${printable(p.message)}${excerpt}`;
    });
    super("CONFIG", `${printable(file)} cannot be used:\n${lines.join("\n")}`);
    this.problems = problems;
  }
}

/** A command line or API call that asks for something that does not exist or does not fit together. */
export class UsageError extends ShunyaError {
  constructor(message: string) {
    super("USAGE", message);
  }
}

/** Training or prompt data that cannot be used; names the file and the place in it. */
export class DataError extends ShunyaError {
  constructor(message: string, options?: ErrorOptions) {
    super("DATA", message, options);
  }
}

/** A model folder or weight file that cannot be used; names the file and the tensor. */
export class ModelError extends ShunyaError {
  constructor(message: string, options?: ErrorOptions) {
    super("MODEL", message, options);
  }
}

/** A checkpoint that cannot be written, or that cannot be gone on from; names the folder and the file in it. */
export class CheckpointError extends ShunyaError {
  constructor(message: string, options?: ErrorOptions) {
    super("CHECKPOINT", message, options);
  }
}

// --- tensors ---

export class ShapeError extends ShunyaError {
  constructor(op: string, found: string, wanted: string) {
    super("SHAPE", `${op}: found ${found}; wanted ${wanted}`);
  }
}

export class DTypeError extends ShunyaError {
  constructor(op: string, found: string, wanted: string) {
    super("DTYPE", `${op}: found ${found}; wanted ${wanted}`);
  }
}

/** Use of something that was freed. */
export class DisposedError extends ShunyaError {
  constructor(what: string, hint: string) {
    super("DISPOSED", `${what} was used after it was freed; ${hint}`);
  }
}

/** A parameter's values were asked for where its unit is not gathered. */
export class NotGatheredError extends ShunyaError {
  constructor(parameter: string, unit: string) {
    super(
      "NOT_GATHERED",
      `parameter ${parameter} was read outside its unit ${unit}, where only this rank's shard exists; ` +
        "read it inside that unit's forward, or run the code that needs it with `this.segment(tape, ...)` of the owning module",
    );
  }
}

// --- memory, ranks, device ---

/** An allocation that does not fit its tier's budget. */
export class MemoryBudgetError extends ShunyaError {
  readonly tier: string;
  readonly neededBytes: number;
  readonly budgetBytes: number;
  constructor(tier: string, neededBytes: number, budgetBytes: number, message: string) {
    super("MEMORY", message);
    this.tier = tier;
    this.neededBytes = neededBytes;
    this.budgetBytes = budgetBytes;
  }
}

/** A collective that did not complete: who is missing, in which call. */
export class CommError extends ShunyaError {
  constructor(message: string, options?: ErrorOptions) {
    super("COMM", message, options);
  }
}

/** Ranks called different collectives. */
export class DesyncError extends ShunyaError {
  constructor(message: string, options?: ErrorOptions) {
    super("DESYNC", message, options);
  }
}

/** Another rank ended while this one waited for it. */
export class RankLostError extends ShunyaError {
  readonly rank: number;
  constructor(rank: number, message: string, options?: ErrorOptions) {
    super("RANK_LOST", message, options);
    this.rank = rank;
  }
}

export class DeviceError extends ShunyaError {
  constructor(message: string, options?: ErrorOptions) {
    super("DEVICE", message, options);
  }
}

/** Where a request to the disk tier failed. */
export interface DiskPlace {
  readonly rank: number;
  readonly file: string;
  /** In the file, in bytes, as is the length. */
  readonly offset: number;
  readonly bytes: number;
  readonly operation: "create" | "preallocate" | "read" | "write";
  /** The system's name of the error (ENOSPC, EIO, ...), or "short", "checksum", "deleted", "resized". */
  readonly reason: string;
}

/** The disk tier lost something, or has no room: which file, where in it, on which rank, and what to do. */
export class DiskError extends ShunyaError {
  readonly place: DiskPlace;
  constructor(place: DiskPlace, message: string, options?: ErrorOptions) {
    super("DISK", message, options);
    this.place = place;
  }
}

/** Training cannot go on: not a finite number where one is needed. */
export class NumericalError extends ShunyaError {
  constructor(message: string) {
    super("NUMERICAL", message);
  }
}

/** Stopped on request (an AbortSignal, Ctrl-C). */
export class InterruptedError extends ShunyaError {
  constructor(message: string) {
    super("INTERRUPTED", message);
  }
}

export class NativeMissingError extends ShunyaError {
  constructor(tried: readonly string[]) {
    super(
      "NATIVE_MISSING",
      `the native core for ${process.platform}-${process.arch} is not built; run "npm run build" (it needs g++ or clang++). ` +
        `Looked for: ${tried.join(", ")}`,
    );
  }
}

// --- our own bugs ---

/** A broken promise of our own code; never the user's fault. */
export class InternalError extends ShunyaError {
  constructor(message: string) {
    super("INTERNAL", `internal: ${message} (this is a bug in Shunya; please report it)`);
  }
}
