/** The kinds of rows in the key table (keys.ts). */

import type { ConfigNode, ConfigScalar } from "./json.ts";
import { boolean, describe, isOff, type JsonSchema, type ValueType } from "./value-types.ts";

interface Notes {
  /** DeepSpeed's default as it would be written, where ours is another or depends on the model. */
  readonly deepspeed?: ConfigScalar;
  /** What to say of a value that the type cannot read, where more is known than the type's own words. */
  readonly explain?: (found: ConfigNode) => string | undefined;
}

/** A key that this version acts on. */
export interface UsedKey<T> extends Notes {
  readonly status: "used";
  readonly type: ValueType<T>;
  /** The value when the key is left out; undefined where that depends on other keys or on the model. */
  readonly leftOut: T | undefined;
  /** True where DeepSpeed's own default is null, so that null means "left out". */
  readonly nullable: boolean;
  readonly doc: string;
}

/** A key of DeepSpeed's for which only one behaviour exists here: those values are accepted, any other is an error that says why. */
export interface FixedKey {
  readonly status: "fixed";
  accepts(node: ConfigNode): boolean;
  readonly wanted: string;
  /** What is accepted, for editors. */
  readonly schema: JsonSchema;
  readonly why: string;
  /** A section that is one row: the names in it, for the pages. */
  readonly inside?: readonly string[];
}

/** A key that changes no number and no byte here: a warning unless it is off. `why` completes "has no effect here: ...". */
export interface UnusedKey {
  readonly status: "unused";
  readonly why: string;
  /** Values that ask for what happens anyway, so that nothing need be said; null always does, and a section that is off. */
  readonly obeyed: readonly ConfigScalar[];
  /** DeepSpeed's default, where it is none of those: a file that repeats it asks for nothing. */
  readonly deepspeed: ConfigScalar | undefined;
  /** Undefined: any value. */
  readonly type: ValueType<unknown> | undefined;
  /** True for a feature that this version does not have; else there is nothing to have. */
  readonly isMissing: boolean;
  /** A section that is one row: the names in it, for the pages. */
  readonly inside?: readonly string[];
}

/** An old key: its value stands for one of another key. Both together are an error. */
export interface ReplacedKey {
  readonly status: "replaced";
  readonly by: string;
  readonly type: ValueType<ConfigScalar>;
  /** The new key's value; undefined where the old one asks for nothing. */
  convert(value: ConfigScalar): ConfigScalar | undefined;
}

export type KeySpec = UsedKey<unknown> | FixedKey | UnusedKey | ReplacedKey;

export function used<T>(type: ValueType<T>, leftOut: T, doc: string, notes: Notes = {}) {
  return { status: "used", type, leftOut, nullable: false, doc, ...notes } as const satisfies UsedKey<T>;
}

/** A used key whose value comes from other keys or from the model when it is left out. */
export function derived<T>(type: ValueType<T>, doc: string, notes: Notes = {}) {
  return { status: "used", type, leftOut: undefined, nullable: false, doc, ...notes } as const satisfies UsedKey<T>;
}

/** The same row, where null means "left out". */
export function nullable<K extends UsedKey<unknown>>(row: K): K {
  return { ...row, nullable: true };
}

/** Only these values; written as in JSON. */
export function always(values: readonly ConfigScalar[], why: string): FixedKey {
  return {
    status: "fixed",
    accepts: (node) => node.kind === "scalar" && values.includes(node.value),
    wanted: values.map((value) => describe({ kind: "scalar", value })).join(" or "),
    schema: { enum: values },
    why,
  };
}

const off = { enum: [false, null] };
const offSection: JsonSchema = {
  anyOf: [
    off,
    { type: "object", properties: {}, additionalProperties: false },
    { type: "object", properties: { enabled: off }, required: ["enabled"] },
  ],
};

/** A section that must be off: left out, null, false, or with `enabled: false`. */
export function mustBeOff(why: string): FixedKey {
  return {
    status: "fixed",
    accepts: isOff,
    wanted: 'nothing here (leave the section out, or write "enabled": false in it)',
    schema: offSection,
    why,
  };
}

export function unused(
  why: string,
  more: {
    readonly obeyed?: readonly ConfigScalar[];
    readonly deepspeed?: ConfigScalar;
    readonly type?: ValueType<unknown>;
  } = {},
): UnusedKey {
  const { obeyed = [false], deepspeed, type } = more;
  return { status: "unused", why, obeyed, deepspeed, type, isMissing: false };
}

/** True for a value of which nothing is said: it asks for what happens anyway, or for nothing. */
export function passesUnsaid(spec: UnusedKey, node: ConfigNode): boolean {
  if (node.kind !== "scalar") return node.kind === "object" && isOff(node);
  return node.value === null || node.value === spec.deepspeed || spec.obeyed.includes(node.value);
}

/** A key of DeepSpeed's whose feature is not here and whose absence changes no result that is promised. */
export function notYet(instead: string, obeyed: readonly ConfigScalar[] = [false]): UnusedKey {
  return { ...unused(`a DeepSpeed key that this version does not implement; ${instead}`, { obeyed }), isMissing: true };
}

/** An old switch that became a word of another key. */
export function switchFor(by: string, whenTrue: ConfigScalar): ReplacedKey {
  return { status: "replaced", by, type: boolean, convert: (on) => (on ? whenTrue : undefined) };
}

/** An old name: the value is the new key's. */
export function renamed(by: string, type: ValueType<ConfigScalar>): ReplacedKey {
  return { status: "replaced", by, type, convert: (value) => value };
}

/** A whole section as one row, with DeepSpeed's names in it. */
export function section<K extends FixedKey | UnusedKey>(row: K, ...inside: readonly string[]): K {
  return { ...row, inside };
}
