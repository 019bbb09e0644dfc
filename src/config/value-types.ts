/**
 * What a key's value may be: how to read it, how to say what is wanted, and how to name what was found instead. Values are taken as
 * DeepSpeed takes them: numbers as text, whole numbers as 5e8 or 8.0, booleans as yes, no, on, off, 1 and 0.
 */

import type { ConfigNode, ConfigScalar } from "./json.ts";

/** A JSON Schema of one value. */
export type JsonSchema = Readonly<Record<string, unknown>>;

export interface ValueType<T> {
  /** Completes "wanted ...". */
  readonly wanted: string;
  /** Beyond it, `wanted` alone would not say why a number is refused. */
  readonly limit?: { readonly most: number; readonly words: string } | undefined;
  /** How the value is best written, for editors. */
  readonly schema: JsonSchema;
  /** The typed value, or undefined where the node does not hold one. */
  read(node: ConfigNode): T | undefined;
}

/** What is wanted in place of `found`. */
export function wantedOf({ wanted, limit }: ValueType<unknown>, found: ConfigNode): string {
  const value = numeric(found);
  return limit !== undefined && value !== undefined && value > limit.most
    ? `${wanted}, at most ${limit.words}`
    : wanted;
}

function scalar(node: ConfigNode): ConfigScalar | undefined {
  return node.kind === "scalar" ? node.value : undefined;
}

/** A number, or a text that is one. */
function numeric(node: ConfigNode): number | undefined {
  const value = scalar(node);
  if (typeof value === "number") return value;
  const isNumber = typeof value === "string" && /^\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*$/.test(value);
  return isNumber ? Number(value) : undefined;
}

/** True where a number or boolean was read from a text, which works but is better written without quotes. */
export function isReadFromText(node: ConfigNode, value: unknown): boolean {
  return node.kind === "scalar" && typeof node.value === "string" && ["number", "boolean"].includes(typeof value);
}

/** A whole number from `min` on; may be written 5e8. */
export function integer(min: number): ValueType<number> {
  return {
    wanted: min === 1 ? "a positive whole number" : `a whole number from ${min} on`,
    limit: { most: Number.MAX_SAFE_INTEGER, words: "2^53 - 1" },
    schema: { type: "integer", minimum: min },
    read(node) {
      const value = numeric(node);
      return value !== undefined && Number.isSafeInteger(value) && value >= min ? value : undefined;
    },
  };
}

/** A number of elements: as `integer`, and anything beyond 2^53 counts as "no limit", since sizes are capped at the model. */
export function elements(min: number): ValueType<number> {
  const exact = integer(min);
  return {
    wanted: `${exact.wanted} of elements`,
    schema: { type: "integer", minimum: min },
    read(node) {
      const value = numeric(node);
      const huge = value !== undefined && value > Number.MAX_SAFE_INTEGER && value !== Number.POSITIVE_INFINITY;
      return huge ? Number.MAX_SAFE_INTEGER : exact.read(node);
    },
  };
}

/** The largest number that fp32 holds: the update runs in fp32. */
const maxFloat32 = 3.4028234663852886e38;
export const float32Limit = { most: maxFloat32, words: "3.4028e38, the largest fp32 number" } as const;

/** A number in [min, max], or in [min, below). */
export function number(min: number, limits: { readonly below?: number } = {}): ValueType<number> {
  const { below } = limits;
  return {
    wanted: below === undefined ? `a number from ${min} on` : `a number from ${min} to below ${below}`,
    limit: below === undefined ? float32Limit : undefined,
    schema: { type: "number", minimum: min, ...(below !== undefined && { exclusiveMaximum: below }) },
    read(node) {
      const value = numeric(node);
      if (value === undefined || !(value >= min) || value > maxFloat32) return undefined;
      return below === undefined || value < below ? value : undefined;
    },
  };
}

/** Two numbers, as `betas` is written. */
export function pair(item: ValueType<number>): ValueType<readonly [number, number]> {
  return {
    wanted: `a list of two, each ${item.wanted}`,
    schema: { type: "array", items: item.schema, minItems: 2, maxItems: 2 },
    read(node) {
      if (node.kind !== "array" || node.items.length !== 2) return undefined;
      const [a, b] = node.items.map((n) => item.read(n));
      return a === undefined || b === undefined ? undefined : [a, b];
    },
  };
}

const booleanWords: ReadonlyMap<string, boolean> = new Map([
  ...["true", "yes", "on", "t", "y", "1"].map((word) => [word, true] as const),
  ...["false", "no", "off", "f", "n", "0"].map((word) => [word, false] as const),
]);

export const boolean: ValueType<boolean> = {
  wanted: "true or false",
  schema: { type: "boolean" },
  read(node) {
    const value = scalar(node);
    if (typeof value === "boolean") return value;
    if (value === 0 || value === 1) return value === 1;
    return typeof value === "string" ? booleanWords.get(value.trim().toLowerCase()) : undefined;
  },
};

/** A pattern of plain letters that takes them in any case, for JSON Schema, whose patterns have no flags. */
export function anyCase(pattern: string): string {
  return pattern.replace(/[a-z]/gi, (letter) => `[${letter.toUpperCase()}${letter.toLowerCase()}]`);
}

/** One of some words or numbers; words in any case. */
export function oneOf<const T extends string | number>(values: readonly T[]): ValueType<T> {
  const words = values.filter((value) => typeof value === "string");
  const pattern = anyCase(`^(${words.join("|")})$`);
  return {
    wanted: values.map((v) => JSON.stringify(v)).join(values.length === 2 ? " or " : ", "),
    schema: words.length === 0 ? { enum: values } : { anyOf: [{ enum: values }, { type: "string", pattern }] },
    read(node) {
      const value = scalar(node);
      const word = typeof value === "string" ? value.toLowerCase() : undefined;
      return values.find((v) => (typeof v === "string" ? v.toLowerCase() === word : v === numeric(node)));
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
  if (typeof node.value === "number") return describeNumber(node.value);
  if (typeof node.value !== "string") return String(node.value);
  const text = node.value.length > 40 ? `${node.value.slice(0, 40)}...` : node.value;
  return JSON.stringify(text);
}

/** A whole number beyond 2^53 was rounded when it was read, so its digits are not those that were written. */
function describeNumber(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "a number too large";
  const isRounded = Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21;
  return isRounded ? `about ${value.toExponential()}` : String(value);
}

/** A repair for the slips that are easy to recognise, to end a message with; else nothing. */
export function repairFor(node: ConfigNode, whenLeftOut: string, type?: ValueType<unknown>): string {
  if (node.kind !== "scalar" || typeof node.value !== "string") return "";
  if (node.value === "auto") {
    return `; "auto" is filled in by Hugging Face's Trainer, not here: write a value, or leave the key out (${whenLeftOut})`;
  }
  const text = node.value.trim();
  const bare = Number(text);
  if (text === "" || type?.read({ kind: "scalar", value: bare }) === undefined) return "";
  return `; write ${text} without quotes`;
}
