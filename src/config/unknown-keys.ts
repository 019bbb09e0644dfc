/** Judges the keys that no row of the table has: slips of the pen, keys at the wrong level, and files of other programs. */

import { type ConfigNode, joinPath } from "./json.ts";
import type { KeySpec } from "./key-kinds.ts";
import { canonicalPath, guess, isCheckedSection, placesOf, specs, suggestion } from "./known-keys.ts";
import type { Place } from "./types.ts";

export interface UnknownKey {
  readonly section: string;
  readonly name: string;
  readonly place: Place;
  readonly node: ConfigNode;
}

export interface Judgement {
  readonly level: "error" | "warning";
  readonly place: Place;
  readonly message: string;
}

/** Sections whose unknown names are judged by whoever knows the section's type. */
const judgedByType = ["optimizer.params", "scheduler.params"];

/** More unknown keys at the top level than this are told as one problem: it is some other program's file. */
const mostUnknownTold = 6;

/** So many problems of one kind are told each; of the rest only how many they are. */
export const mostTold = 100;

/** @param knowsNothing true where the file has no key of the table at all */
export function judgeUnknown(unknown: readonly UnknownKey[], knowsNothing: boolean): Judgement[] {
  const here = unknown.filter((u) => !judgedByType.includes(u.section));
  const top = here.filter((u) => u.section === "" && u.place.source === "file" && placesOf(u.name).length === 0);
  const isOther =
    knowsNothing && top.length > 0 && top.slice(0, mostTold).every((u) => guess("", u.name) === undefined);
  if (!isOther && top.length <= mostUnknownTold) return judgeEach(here);
  const asOne = new Set(top);
  return [judgeFile(top, knowsNothing), ...judgeEach(here.filter((u) => !asOne.has(u)))];
}

function judgeEach(unknown: readonly UnknownKey[]): Judgement[] {
  const rest = unknown.slice(mostTold);
  const told = unknown.slice(0, mostTold).map(judgeOne);
  if (rest.length === 0) return told;
  const count = rest.length === 1 ? " is" : ` and ${rest.length - 1} more are`;
  return [...told, { level: "error", place: rest[0]!.place, message: `this key${count} unknown too` }];
}

/** The first few names of a list that may be long. */
export function someNames(names: readonly string[]): string {
  const shown = names.slice(0, mostNamed).map((name) => (name.length > 60 ? `${name.slice(0, 60)}...` : name));
  const more = names.length - shown.length;
  return shown.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

const mostNamed = 20;

function judgeOne({ section, name, node, place }: UnknownKey): Judgement {
  const harmless = placesOf(name)
    .map((path) => [path, specs.get(canonicalPath(path))] as const)
    .find(([, spec]) => spec !== undefined && changesNothing(spec, node));
  if (harmless === undefined || isCheckedSection(section))
    return { level: "error", place, message: `unknown key${suggestion(section, name)}` };
  const message = `at the wrong level, so it is not read; it is known as ${harmless[0]}, where this value changes nothing`;
  return { level: "warning", place, message };
}

/** True for a key whose value asks for what happens without it. */
function changesNothing(spec: KeySpec, node: ConfigNode): boolean {
  if (node.kind !== "scalar") return false;
  if (spec.status === "used") return spec.leftOut !== undefined && spec.type.read(node) === spec.leftOut;
  return spec.status === "unused" || (spec.status === "fixed" && spec.accepts(node));
}

/** Many names of another program: one problem that says so. */
function judgeFile(top: readonly UnknownKey[], knowsNothing: boolean): Judgement {
  const names = someNames(top.map((u) => u.name));
  const inner = findConfigInside(top);
  const hint =
    inner === undefined ? "" : `; what stands under ${inner} looks like one: give that part as a file of its own`;
  const all = knowsNothing
    ? "no key of DeepSpeed's at the top level, so this is another kind of file"
    : `${top.length} keys at the top level are not DeepSpeed's, so this is another program's file`;
  return {
    level: "error",
    place: top[0]!.place,
    message: `${all} (${names})${hint}; wanted a DeepSpeed configuration`,
  };
}

/** Keys by which a configuration is recognised. */
const telltale = ["zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "optimizer"];

/** The dotted path of an object inside foreign keys that holds keys of a DeepSpeed configuration. */
function findConfigInside(top: readonly UnknownKey[]): string | undefined {
  const search = (node: ConfigNode, path: string): string | undefined => {
    if (node.kind !== "object") return undefined;
    if (node.members.some((m) => telltale.includes(m.key))) return path;
    for (const { key, value } of node.members) {
      const found = search(value, joinPath(path, key));
      if (found !== undefined) return found;
    }
    return undefined;
  };
  for (const { name, node } of top) {
    const found = search(node, name);
    if (found !== undefined) return found;
  }
  return undefined;
}
