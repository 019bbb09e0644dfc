/**
 * What callers of the public API give, checked before anything is done with it. JavaScript has no compiler to tell of a slip of the
 * pen, and an option that nobody reads does nothing in silence.
 */

import { UsageError } from "./errors.ts";
import { printable } from "./printable.ts";
import { nearest } from "./spelling.ts";

/** A sort of values: what it is called, and which values are of it. */
export interface Kind {
  readonly wanted: string;
  readonly holds: (value: unknown) => boolean;
  /** May not be left out. */
  readonly isRequired?: true;
}

/** Every option of `T` and its kind: the compiler finds one that is missing here. */
export type Kinds<T> = { readonly [K in keyof Required<T>]: Kind };

export const required = (kind: Kind): Kind => ({ ...kind, isRequired: true });

export const text: Kind = { wanted: "text", holds: (value) => typeof value === "string" };

/** Text that a file system can have as a name. */
export const path: Kind = {
  wanted: "a path",
  holds: (value) => typeof value === "string" && value !== "" && !value.includes("\0"),
};

export const truth: Kind = { wanted: "true or false", holds: (value) => typeof value === "boolean" };

export const aFunction: Kind = { wanted: "a function", holds: (value) => typeof value === "function" };

export const anObject: Kind = { wanted: "an object", holds: isObject };

export const texts: Kind = {
  wanted: "a list of texts",
  holds: (value) => Array.isArray(value) && value.every((item) => typeof item === "string"),
};

export const signal: Kind = { wanted: "an AbortSignal", holds: (value) => value instanceof AbortSignal };

/** @param range as it is said: "of at least 1" */
export const wholeNumber = (least: number, most = Number.MAX_SAFE_INTEGER): Kind => ({
  wanted: `a whole number ${most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`}`,
  holds: (value) => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most,
});

/** @param range what `isIn` holds for: "a number above 0" */
export const numberThat = (range: string, isIn: (value: number) => boolean): Kind => ({
  wanted: range,
  holds: (value) => typeof value === "number" && isIn(value),
});

export const positive = numberThat("a number above 0", (value) => value > 0 && Number.isFinite(value));

/** A probability of dropping something. */
export const dropShare = numberThat("a number of at least 0 and below 1", (value) => value >= 0 && value < 1);

export const oneOf = (values: readonly string[]): Kind => ({
  wanted: values.map((value) => `"${value}"`).join(" or "),
  holds: (value) => typeof value === "string" && values.includes(value),
});

export const either = (one: Kind, other: Kind): Kind => ({
  wanted: `${one.wanted} or ${other.wanted}`,
  holds: (value) => one.holds(value) || other.holds(value),
});

/** An object with these methods. @param what it is called: "a logger" */
export const withMethods = (what: string, names: readonly string[]): Kind => ({
  wanted: `${what} (an object with ${names.join(", ")})`,
  holds: (value) =>
    typeof value === "object" &&
    value !== null &&
    names.every((name) => typeof (value as Record<string, unknown>)[name] === "function"),
});

/**
 * @param call as the caller writes it @param options what was given, by name; a value of undefined counts as left out
 * @throws UsageError for no object, an unknown name (with the nearest known one), a value of another kind, and what is missing
 */
export function checkOptions<T extends object>(call: string, options: T, kinds: Kinds<T>): void {
  if (!isObject(options)) throw new UsageError(`${call}: found ${describe(options)}; wanted an object of options`);
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(kinds, name)) continue;
    const meant = nearest(name, Object.keys(kinds));
    const advice = meant === undefined ? `it knows ${Object.keys(kinds).join(", ")}` : `did you mean ${meant}?`;
    throw new UsageError(`${call}: unknown option ${printable(name)}; ${advice}`);
  }
  for (const [name, kind] of Object.entries<Kind>(kinds))
    checkArgument(call, name, (options as Record<string, unknown>)[name], kind);
}

/** The same of a single value. @throws UsageError */
export function checkArgument(call: string, name: string, value: unknown, kind: Kind): void {
  if (value === undefined ? !kind.isRequired : kind.holds(value)) return;
  throw new UsageError(`${call}: ${name}: found ${describe(value)}; wanted ${kind.wanted}`);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const longestShown = 60;

/** For people, in a few words. */
function describe(value: unknown): string {
  if (value === undefined) return "nothing";
  if (typeof value === "string")
    return printable(JSON.stringify(value.length > longestShown ? `${value.slice(0, longestShown)}...` : value));
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value !== "object" || value === null) return String(value);
  const maker: unknown = value.constructor;
  return typeof maker === "function" && maker !== Object ? `an object (${maker.name})` : "an object";
}
