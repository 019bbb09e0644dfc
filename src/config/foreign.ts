/** Parameters that the optimizer or schedule of a configuration does not have: they would be obeyed by nobody. */

import { nearest } from "../errors/spelling.ts";
import type { Settings } from "./reader.ts";
import { usedPaths } from "./reader.ts";
import { mostTold, someNames } from "./unknown-keys.ts";

/**
 * @param section "optimizer" or "scheduler"
 * @param type its type, as the user means it; undefined where none is given
 * @param own names of the parameters that the type has
 */
export function refuseForeign(settings: Settings, section: string, type: string | undefined, own: readonly string[]) {
  const inside = `${section}.params`;
  const known = usedPaths.filter((path) => path.startsWith(`${inside}.`)).map((path) => path.slice(inside.length + 1));
  const foreign = known.filter((name) => !own.includes(name) && settings.placeOf(`${inside}.${name}`) !== undefined);
  const all = [...foreign.map((name) => ({ name, path: `${inside}.${name}` })), ...settings.unknownIn(inside)];
  const more = all.length - mostTold;
  if (more > 0) settings.error(all[mostTold]!.path, `this is no parameter either, nor ${more - 1} more`);
  for (const { name, path } of all.slice(0, mostTold)) {
    if (type === undefined) {
      settings.error(path, `found without ${section}.type; name a type, or remove the section`);
      continue;
    }
    const near = nearest(name, own);
    const hint = near === undefined ? "" : `; did you mean ${near}?`;
    settings.error(path, `${type} has no such parameter; it has ${own.join(", ")}${hint}`);
  }
}

/** Where the type itself is a problem, its parameters are only named. */
export function nameUnjudged(settings: Settings, section: string): void {
  const names = settings.unknownIn(`${section}.params`).map((unknown) => unknown.name);
  if (names.length > 0)
    settings.warn(`${section}.params`, `not looked at, since the type is not known here: ${someNames(names)}`);
}
