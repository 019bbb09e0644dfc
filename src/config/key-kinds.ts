/** The three kinds of rows in the key table (keys.ts). */

import type { ConfigNode } from "./json.ts";
import { describe, isOff, type ValueType } from "./value-types.ts";

/** A key that this version acts on. */
export interface UsedKey<T> {
  readonly status: "used";
  readonly type: ValueType<T>;
  /** The value when the key is left out; undefined where that depends on other keys or on the model. */
  readonly leftOut: T | undefined;
  /** Words and values that mean the same as leaving the key out, as DeepSpeed reads them. */
  readonly sameAsLeftOut: readonly ("auto" | null)[];
  readonly doc: string;
}

/** A key of DeepSpeed's for which only one behaviour exists here: those values are accepted, any other is an error that says why. */
export interface FixedKey {
  readonly status: "fixed";
  accepts(node: ConfigNode): boolean;
  readonly wanted: string;
  readonly why: string;
}

/** A key of DeepSpeed's that changes no number: a warning unless it is off. `why` completes "has no effect here: ...". */
export interface UnusedKey {
  readonly status: "unused";
  readonly why: string;
}

export type KeySpec = UsedKey<unknown> | FixedKey | UnusedKey;

export function used<T>(type: ValueType<T>, leftOut: T, doc: string): UsedKey<T> & { readonly leftOut: T } {
  return { status: "used", type, leftOut, sameAsLeftOut: [], doc };
}

/** A used key whose value comes from other keys or from the model when it is left out (or "auto", or null). */
export function derived<T>(type: ValueType<T>, doc: string): UsedKey<T> & { readonly leftOut: undefined } {
  return { status: "used", type, leftOut: undefined, sameAsLeftOut: ["auto", null], doc };
}

/** Only these values; written as in JSON. */
export function always(values: readonly (string | number | boolean | null)[], why: string): FixedKey {
  return {
    status: "fixed",
    accepts: (node) => node.kind === "scalar" && values.includes(node.value),
    wanted: values.map((value) => describe({ kind: "scalar", value })).join(" or "),
    why,
  };
}

/** A section that must be off: left out, null, false, or with `enabled: false`. */
export function mustBeOff(why: string): FixedKey {
  return {
    status: "fixed",
    accepts: isOff,
    wanted: 'nothing here (leave the section out, or write "enabled": false in it)',
    why,
  };
}

/** Settings of a section that this version does not act on while the section is off, so their values do not matter. */
export function settingOf(section: string): FixedKey {
  return { status: "fixed", accepts: () => true, wanted: "anything", why: `${section} is off` };
}

export function unused(why: string): UnusedKey {
  return { status: "unused", why };
}
