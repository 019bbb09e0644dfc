/** A configuration object with `--set` and its kin written into it, so that it can be kept as one file. */
import type { Override } from "../config/resolve.ts";

type Section = { [key: string]: unknown };

/** @returns a copy; sections that a path needs are made */
export function withOverrides(settings: object, overrides: readonly Override[]): object {
  const root = structuredClone(settings) as Section;
  for (const [path, value] of overrides) {
    const keys = path.split(".");
    let at = root;
    for (const key of keys.slice(0, -1)) {
      const next = Object.hasOwn(at, key) ? at[key] : undefined;
      at[key] = typeof next === "object" && next !== null && !Array.isArray(next) ? next : {};
      at = at[key] as Section;
    }
    at[keys.at(-1)!] = typeof value === "string" ? jsonOrText(value) : value;
  }
  return root;
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
