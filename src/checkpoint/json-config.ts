/** Reading the keys of a config.json, with every problem of it told at once. */

import { ModelError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { describeJson } from "./describe.ts";

/** Far more blocks than any model has: each becomes an object here before a tensor is looked for. */
export const mostLayers = 65_536;

export type JsonRecord = Readonly<Record<string, unknown>>;

/** @param path how errors name the file. Throws ModelError. */
export function parseConfigRecord(text: string, path: string, what = "a JSON object with a model_type"): JsonRecord {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new ModelError(`${path} is not JSON: ${reasonOf(error)}`, { cause: error });
  }
  if (isRecord(value)) return value;
  throw new ModelError(`${path}: found ${describeJson(value)}; wanted ${what}`);
}

export const isRecord = (value: unknown): value is JsonRecord =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Collects what is wrong. null counts as left out, as in Python's files. */
export class ConfigReader {
  readonly record: JsonRecord;
  readonly problems: string[] = [];
  /** Before a key in what is told of it: "rope_scaling.". */
  readonly #prefix: string;

  constructor(record: JsonRecord, prefix = "") {
    this.record = record;
    this.#prefix = prefix;
  }

  check(key: string, fits: boolean, wanted: string): void {
    if (!fits) this.problems.push(`${this.#prefix}${key}: found ${describeJson(this.record[key])}; wanted ${wanted}`);
  }

  /** A positive whole number. */
  count(key: string, leftOut?: number, most = Number.MAX_SAFE_INTEGER): number {
    const value = this.record[key] ?? leftOut;
    const fits = Number.isSafeInteger(value) && (value as number) > 0 && (value as number) <= most;
    this.check(key, fits, `a positive whole number${most === Number.MAX_SAFE_INTEGER ? "" : ` of at most ${most}`}`);
    return fits ? (value as number) : 1;
  }

  /** A number from `least` to below `below`. */
  number(key: string, leftOut: number | undefined, below: number, least = 0): number {
    const value = this.record[key] ?? leftOut;
    const fits = typeof value === "number" && value >= least && value < below;
    this.check(key, fits, `a number from ${least} to below ${below}`);
    return fits ? value : (leftOut ?? Math.max(1, least));
  }

  flag(key: string, leftOut: boolean): boolean {
    const value = this.record[key] ?? leftOut;
    this.check(key, typeof value === "boolean", "true or false");
    return value === true;
  }

  /** A setting that would make another network, and the only value that this one has. */
  only(key: string, value: unknown): void {
    this.check(key, (this.record[key] ?? value) === value, JSON.stringify(value));
  }
}
