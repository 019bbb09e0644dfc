/** Presets by name, as people write them: "a100 40gb" is A100-40GB. */

import { UsageError } from "../errors/errors.ts";
import { editDistance } from "../errors/spelling.ts";

interface Named {
  readonly name: string;
  readonly alsoCalled: readonly string[];
}

/** Longer texts are near to no name; bounds the cost of the comparison. */
const maxLength = 60;
const proposed = 3;

/** What counts of a name: its letters and digits, without the maker's. */
const keyOf = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^a-z0-9.]/g, "")
    .replace(/^nvidia/, "");

/** The name without a memory size: A100-40GB and A100-80GB are two of one family. */
const familyOf = (name: string): string => keyOf(name.replace(/[\s-]*\d+\s*GB$/i, ""));

const keysOf = ({ name, alsoCalled }: Named): string[] => [name, ...alsoCalled].map(keyOf);

/** The preset that a text names, if it names one. */
export const presetNamed = <T extends Named>(text: string, presets: readonly T[]): T | undefined =>
  presets.find((preset) => keysOf(preset).includes(keyOf(text)));

/** @param what "device", as messages call it. @throws UsageError with the nearest names, or with all that a text may mean */
export function findPreset<T extends Named>(what: string, text: string, presets: readonly T[]): T {
  const found = presetNamed(text, presets);
  if (found !== undefined) return found;
  const family = presets.filter(({ name }) => familyOf(name) === keyOf(text));
  if (family.length > 0) throw new UsageError(`${what} "${text}": say which one: ${listed(family, "or")}`);
  throw new UsageError(
    `${what} "${text}" is not known; the nearest names are ${listed(nearestPresets(text, presets), "and")} ` +
      "(docs/hardware.md lists all)",
  );
}

/** The few presets whose names take the fewest edits, the nearest first. */
function nearestPresets<T extends Named>(text: string, presets: readonly T[]): T[] {
  const key = keyOf(text).slice(0, maxLength);
  const edits = (preset: T): number =>
    Math.min(...[...keysOf(preset), familyOf(preset.name)].map((name) => editDistance(key, name)));
  return presets
    .map((preset) => ({ preset, distance: edits(preset) }))
    .sort((a, b) => a.distance - b.distance)
    .slice(0, proposed)
    .map(({ preset }) => preset);
}

/** "A, B and C". */
function listed(presets: readonly Named[], word: "and" | "or"): string {
  const names = presets.map(({ name }) => name);
  const last = names.pop();
  return names.length === 0 ? String(last) : `${names.join(", ")} ${word} ${last}`;
}
