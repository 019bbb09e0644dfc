/** What a key's value may be: how to read it, how to say what is wanted, and how to name what was found instead. */

import type { ConfigNode, ConfigScalar } from "./json.ts";

export interface ValueType<T> {
  /** Completes "wanted ...". */
  readonly wanted: string;
  /** The typed value, or undefined where the node does not hold one. */
  read(node: ConfigNode): T | undefined;
}

function scalar(node: ConfigNode): ConfigScalar | undefined {
  return node.kind === "scalar" ? node.value : undefined;
}

/** A whole number from `min` on; may be written 5e8. */
export function integer(min: number): ValueType<number> {
  return {
    wanted: min === 1 ? "a positive whole number" : `a whole number from ${min} on`,
    read(node) {
      const value = scalar(node);
      return typeof value === "number" && Number.isSafeInteger(value) && value >= min ? value : undefined;
    },
  };
}

/** A number of elements: as `integer`, and anything beyond 2^53 counts as "no limit", since sizes are capped at the model. */
export function elements(min: number): ValueType<number> {
  const exact = integer(min);
  return {
    wanted: `${exact.wanted} of elements`,
    read(node) {
      const value = scalar(node);
      const huge = typeof value === "number" && value > Number.MAX_SAFE_INTEGER && value !== Number.POSITIVE_INFINITY;
      return huge ? Number.MAX_SAFE_INTEGER : exact.read(node);
    },
  };
}

/** The largest number that fp32 holds: the update runs in fp32. */
const maxFloat32 = 3.4028234663852886e38;

/** A number in [min, max], or in [min, below). */
export function number(min: number, limits: { readonly below?: number } = {}): ValueType<number> {
  const { below } = limits;
  return {
    wanted: below === undefined ? `a number from ${min} on` : `a number from ${min} to below ${below}`,
    read(node) {
      const value = scalar(node);
      if (typeof value !== "number" || !(value >= min) || value > maxFloat32) return undefined;
      return below === undefined || value < below ? value : undefined;
    },
  };
}

/** Two numbers, as `betas` is written. */
export function pair(item: ValueType<number>): ValueType<readonly [number, number]> {
  return {
    wanted: `a list of two, each ${item.wanted}`,
    read(node) {
      if (node.kind !== "array" || node.items.length !== 2) return undefined;
      const [a, b] = node.items.map((n) => item.read(n));
      return a === undefined || b === undefined ? undefined : [a, b];
    },
  };
}

export const boolean: ValueType<boolean> = {
  wanted: "true or false",
  read(node) {
    const value = scalar(node);
    return typeof value === "boolean" ? value : undefined;
  },
};

/** One of some words or numbers; words in any case. */
export function oneOf<const T extends string | number>(values: readonly T[]): ValueType<T> {
  const same = (a: string | number, b: ConfigScalar) =>
    typeof a === "string" && typeof b === "string" ? a.toLowerCase() === b.toLowerCase() : a === b;
  return {
    wanted: values.map((v) => JSON.stringify(v)).join(values.length === 2 ? " or " : ", "),
    read(node) {
      const value = scalar(node);
      return value === undefined ? undefined : values.find((v) => same(v, value));
    },
  };
}

/** True for what DeepSpeed users write to say that a section is off: null, false, or an object whose `enabled` is not true. */
export function isOff(node: ConfigNode): boolean {
  if (node.kind === "scalar") return node.value === null || node.value === false;
  if (node.kind === "array") return false;
  if (node.members.length === 0) return true;
  const enabled = node.members.find((m) => m.key === "enabled");
  return enabled !== undefined && isOff(enabled.value);
}

/** What stands there, short enough for a message. */
export function describe(node: ConfigNode): string {
  if (node.kind === "object") return "an object { ... }";
  if (node.kind === "array") return node.items.length <= 4 ? `[${node.items.map(describe).join(", ")}]` : "a list";
  if (typeof node.value !== "string")
    return node.value === Number.POSITIVE_INFINITY ? "a number too large" : String(node.value);
  const text = node.value.length > 40 ? `${node.value.slice(0, 40)}...` : node.value;
  return JSON.stringify(text);
}

/** A repair for the slips that are easy to recognise, to end a message with; else nothing. */
export function repairFor(node: ConfigNode, whenLeftOut: string, type?: ValueType<unknown>): string {
  if (node.kind !== "scalar" || typeof node.value !== "string") return "";
  if (node.value === "auto") {
    return `; "auto" is filled in by Hugging Face's Trainer, not here: write a value, or leave the key out (${whenLeftOut})`;
  }
  const text = node.value.trim();
  const bare = Object.hasOwn(bareWords, text.toLowerCase()) ? bareWords[text.toLowerCase()]! : Number(text);
  if (text === "" || type?.read({ kind: "scalar", value: bare }) === undefined) return "";
  return `; write ${typeof bare === "boolean" ? bare : text} without quotes`;
}

const bareWords: Readonly<Record<string, boolean>> = {
  true: true,
  false: false,
  yes: true,
  no: false,
  on: true,
  off: false,
};
