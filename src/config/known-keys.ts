/** What the key table knows of a name: its row, the section that it opens, and what an unknown one was probably meant to be. */

import { nearest } from "../errors/spelling.ts";
import { joinPath } from "./json.ts";
import type { KeySpec } from "./key-kinds.ts";
import { aliases, checkedSections, keys, misspellings } from "./keys.ts";

export const specs: ReadonlyMap<string, KeySpec> = new Map<string, KeySpec>(Object.entries(keys));

/** Names that are known in each section ("" at the top), aliases included. */
export const sections: ReadonlyMap<string, ReadonlySet<string>> = namesBySection();

function namesBySection(): Map<string, Set<string>> {
  const names = new Map<string, Set<string>>();
  for (const path of [...specs.keys(), ...Object.keys(aliases)]) {
    for (let child = path; child !== ""; ) {
      const [parent, name] = splitPath(child);
      names.set(parent, (names.get(parent) ?? new Set()).add(name));
      child = parent;
    }
  }
  return names;
}

/** A dotted path as its section ("" at the top) and its last name. */
export function splitPath(path: string): [parent: string, name: string] {
  const dot = path.lastIndexOf(".");
  return dot === -1 ? ["", path] : [path.slice(0, dot), path.slice(dot + 1)];
}

/** The table's spelling of a path. */
export function canonicalPath(path: string): string {
  if (Object.hasOwn(aliases, path)) return aliases[path]!;
  if (Object.hasOwn(misspellings, path)) return misspellings[path]!;
  const dot = path.indexOf(".");
  const head = dot === -1 ? path : path.slice(0, dot);
  return dot !== -1 && Object.hasOwn(aliases, head) ? aliases[head]! + path.slice(dot) : path;
}

/** Paths of keys and sections that have this name at another level; DeepSpeed's own before ours. */
export function placesOf(name: string): readonly string[] {
  return pathsByName.get(name) ?? [];
}

const pathsByName: ReadonlyMap<string, readonly string[]> = namedPaths();

function namedPaths(): Map<string, string[]> {
  const all = [...new Set([...specs.keys(), ...sections.keys(), ...Object.keys(aliases)])].filter(
    (path) => path !== "",
  );
  all.sort((a, b) => Number(a.startsWith("shunya.")) - Number(b.startsWith("shunya.")));
  const paths = new Map<string, string[]>();
  for (const path of all)
    for (const name of new Set([path, splitPath(path)[1]])) paths.set(name, [...(paths.get(name) ?? []), path]);
  return paths;
}

/** A name that stands in more places than this says nothing about which one was meant. */
const telling = 3;

/** Ends the message on an unknown key: where it is known, the nearest spelling (at its own level first), or to remove it. */
export function suggestion(parent: string, name: string): string {
  if (name.includes(".") && specs.has(canonicalPath(name)))
    return `; write ${splitPath(name)[1]} in an object under ${splitPath(name)[0]}: DeepSpeed reads no dotted keys`;
  const places = placesOf(name);
  if (parent === "bf16" && places.includes(`fp16.${name}`))
    return "; it belongs to fp16: bf16 reaches as far as fp32 and needs no loss scale, so remove it";
  if (places.length > 0 && places.length <= telling) {
    const level = places.some((place) => place === name) ? "at the top level" : `as ${places.join(" or ")}`;
    return `; it is known ${level}: move it there`;
  }
  if (places.length > 0)
    return `; it is known in ${places.length} sections (${places.slice(0, telling).join(", ")}, ...): move it into the right one`;
  const guessed = guess(parent, name);
  return guessed === undefined ? "; remove it (a note can stand in a // comment)" : `; did you mean ${guessed}?`;
}

/** The known path with the nearest name, at its own level first, if one is near enough to be meant. */
export function guess(parent: string, name: string): string | undefined {
  const siblings = sections.get(parent) ?? [];
  const sibling = nearest(name, siblings) ?? holding(name, siblings);
  if (sibling !== undefined) return joinPath(parent, sibling);
  const known = [...specs.keys(), ...Object.keys(aliases)];
  const names = new Map(known.map((path) => [splitPath(path)[1], path]));
  const far = nearest(name, names.keys()) ?? holding(name, names.keys());
  return far && names.get(far);
}

/**
 * The only candidate that has all words of `name`, such as train_micro_batch_size_per_gpu for micro_batch_per_gpu, or that begins
 * as it does, such as zero_hpz_partition_size for zero_hpzz.
 */
function holding(name: string, candidates: Iterable<string>): string | undefined {
  const words = name.toLowerCase().split(/[_\-\s]+/);
  if (words.length < 2) return undefined;
  const start = name.slice(0, -1);
  const holders = [...candidates].filter((candidate) => {
    const has = new Set(candidate.split("_"));
    return words.every((word) => has.has(word)) || (start.length >= shortestStart && candidate.startsWith(start));
  });
  return holders.length === 1 ? holders[0] : undefined;
}

/** Shorter beginnings are those of many names. */
const shortestStart = 8;

/** Names under which people keep notes in JSON, in any case. */
export const notePattern = "^(//.*|#.*|_*(comments?|notes?|description|help|doc|readme)_*[0-9]*)$";
const noteName = new RegExp(notePattern, "i");

export function isNote(name: string): boolean {
  return noteName.test(name);
}

/** Text that a template or a script was to replace: `${stage}`, `{{ stage }}`, `<stage>`, `CONFIG_STAGE`. */
const placeholder = /\$\{[^}]*\}?|\{\{[^}]*\}\}|^\$[A-Za-z_]\w*,?$|^<[A-Za-z][\w\s-]*>,?$|^CONFIG_[A-Z_]+,?$/;

/** Bounds the search, which looks again from every opening bracket. */
const longestPlaceholder = 200;

export function placeholderIn(text: string): string | undefined {
  return text.length > longestPlaceholder ? undefined : placeholder.exec(text)?.[0];
}

/** True for a section, or one inside it, whose names DeepSpeed itself checks. */
export function isCheckedSection(section: string): boolean {
  return checkedSections.some((checked) => section === checked || section.startsWith(`${checked}.`));
}
