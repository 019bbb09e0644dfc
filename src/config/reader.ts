/** Walks a configuration tree against the key table: typed values by path, and every problem and warning on the way. */

import type { ConfigProblem } from "../errors/errors.ts";
import { type ConfigNode, joinPath } from "./json.ts";
import type { KeySpec, UsedKey } from "./key-kinds.ts";
import { aliases, keys, type UsedPath } from "./keys.ts";
import { nearest } from "./spelling.ts";
import type { ValueSource } from "./types.ts";
import { describe, repairFor } from "./value-types.ts";

type Read<K extends UsedPath> = (typeof keys)[K] extends UsedKey<infer T> ? T : never;
/** What `get` answers: the value, or the table's default; undefined only where the table has none. */
type Value<K extends UsedPath> = Read<K> | Extract<(typeof keys)[K]["leftOut"], undefined>;

interface Entry {
  readonly written: string;
  readonly line: number | undefined;
  readonly source: ValueSource;
  readonly value: unknown;
}

const specs = new Map<string, KeySpec>(Object.entries(keys));
/** Names that are known in each section, aliases included. */
const sections = new Map<string, Set<string>>();
for (const path of [...specs.keys(), ...Object.keys(aliases)]) {
  for (let child = path; child !== ""; ) {
    const [parent, name] = splitPath(child);
    sections.set(parent, (sections.get(parent) ?? new Set()).add(name));
    child = parent;
  }
}

/**
 * The values of one configuration. Add the flags first: what the file says of a key that a flag gives is not even looked at, so a
 * flag can repair a file.
 */
export class Settings {
  readonly problems: ConfigProblem[] = [];
  readonly warnings: string[] = [];
  readonly #entries = new Map<string, Entry>();
  readonly #unreadable = new Set<string>();
  readonly #flagged = new Set<string>();

  /** Takes over every key of a tree; `path` is where the tree's root stands. */
  add(node: ConfigNode, source: ValueSource, path = "", line?: number): void {
    const canonical = canonicalPath(path);
    const spec = specs.get(canonical);
    if (spec !== undefined) this.#addValue(canonical, spec, node, source, path, line);
    else if (!sections.has(canonical)) this.#unknown(...splitPath(path), line);
    else if (node.kind === "object") {
      for (const { key, line: keyLine, value } of node.members) {
        // A dotted key is one odd name, not a path: DeepSpeed does not read it as one either.
        if (key === "" || key.includes(".")) this.#unknown(path, key, keyLine);
        else this.add(value, source, joinPath(path, key), keyLine);
      }
    } else this.#sectionAsValue(canonical, node, source, path, line);
  }

  get<K extends UsedPath>(path: K): Value<K> {
    const entry = this.#entries.get(path);
    // The entry's value was read by this key's own type, so the table vouches for its type.
    return (entry === undefined ? keys[path].leftOut : entry.value) as Value<K>;
  }

  has(path: UsedPath): boolean {
    return this.#entries.has(path);
  }

  /** True where a value was given that could not be read: already a problem, so no later check need complain of it. */
  isUnreadable(path: UsedPath): boolean {
    return this.#unreadable.has(path);
  }

  source(path: UsedPath): ValueSource {
    return this.#entries.get(path)?.source ?? "default";
  }

  /** Adds a problem at a key, with the line and spelling that the user wrote. */
  problem(path: UsedPath, message: string): void {
    const entry = this.#entries.get(path);
    this.#addProblem(entry?.written ?? path, entry?.line, message);
  }

  #addProblem(path: string, line: number | undefined, message: string): void {
    this.problems.push({ path, line, level: "error", message });
  }

  #addValue(path: string, spec: KeySpec, node: ConfigNode, source: ValueSource, written: string, line?: number): void {
    if (source === "flag") this.#flagged.add(path);
    else if (this.#flagged.has(path)) return;
    if (spec.status === "unused") {
      const off = node.kind === "scalar" && (node.value === false || node.value === null);
      if (!off) this.warnings.push(`${written} has no effect here: ${spec.why}`);
      return;
    }
    if (spec.status === "fixed") {
      if (spec.accepts(node)) return;
      const tail = repairFor(node, "it is as wanted");
      this.#addProblem(written, line, `found ${describe(node)}; wanted ${spec.wanted}: ${spec.why}${tail}`);
      return;
    }
    const earlier = this.#entries.get(path);
    if (earlier !== undefined && earlier.written !== written && source === "file") {
      const where = earlier.line === undefined ? "" : ` on line ${earlier.line}`;
      this.#addProblem(written, line, `this is the same key as ${earlier.written}${where}; keep one of the two`);
      return;
    }
    const leftOut = node.kind === "scalar" && spec.sameAsLeftOut.some((same) => same === node.value);
    if (leftOut) {
      this.#entries.delete(path);
      return;
    }
    const value = spec.type.read(node);
    if (value !== undefined) {
      this.#entries.set(path, { written, line, source, value });
      return;
    }
    const whenLeftOut = spec.leftOut === undefined ? "it is derived" : `it is ${JSON.stringify(spec.leftOut)}`;
    const tail = repairFor(node, whenLeftOut, spec.type);
    this.#addProblem(written, line, `found ${describe(node)}; wanted ${spec.type.wanted}${tail}`);
    this.#unreadable.add(path);
  }

  /** Where an object is wanted and something else stands. */
  #sectionAsValue(section: string, node: ConfigNode, source: ValueSource, written: string, line?: number): void {
    const scalar = node.kind === "scalar" ? node.value : undefined;
    if (section === "zero_optimization" && typeof scalar === "boolean") {
      // An old form: true means stage 1.
      this.add({ kind: "scalar", value: scalar ? 1 : 0 }, source, "zero_optimization.stage", line);
      return;
    }
    const mayBeNull = section === "scheduler" || section.startsWith("zero_optimization.offload_");
    if (scalar === null && mayBeNull) {
      const inside = [...specs.keys()].filter((path) => path.startsWith(`${section}.`));
      if (source === "flag") for (const path of inside) this.#flagged.add(path);
      return;
    }
    const [first] = sections.get(section)!;
    this.#addProblem(
      written || "(root)",
      line,
      `found ${describe(node)}; wanted an object such as { "${first}": ... }`,
    );
  }

  #unknown(parent: string, name: string, line: number | undefined): void {
    this.#addProblem(joinPath(parent, name), line, `unknown key${suggestion(canonicalPath(parent), name)}`);
  }
}

/** A dotted path as its section ("" at the top) and its last name. */
function splitPath(path: string): [parent: string, name: string] {
  const dot = path.lastIndexOf(".");
  return dot === -1 ? ["", path] : [path.slice(0, dot), path.slice(dot + 1)];
}

function canonicalPath(path: string): string {
  if (Object.hasOwn(aliases, path)) return aliases[path]!;
  const dot = path.indexOf(".");
  const head = dot === -1 ? path : path.slice(0, dot);
  return dot !== -1 && Object.hasOwn(aliases, head) ? aliases[head]! + path.slice(dot) : path;
}

/** The level at which the key is known, or the nearest spelling: at its own level first, then anywhere. */
function suggestion(parent: string, name: string): string {
  const known = [...specs.keys(), ...Object.keys(aliases)];
  const elsewhere = known.find((candidate) => candidate === name || splitPath(candidate)[1] === name);
  if (elsewhere !== undefined) return `; it is known as ${elsewhere}: move it there`;
  const sibling = nearest(name, sections.get(parent) ?? []);
  if (sibling !== undefined) return `; did you mean ${joinPath(parent, sibling)}?`;
  const names = new Map(known.map((candidate) => [splitPath(candidate)[1], candidate]));
  const far = nearest(name, names.keys());
  if (far !== undefined) return `; did you mean ${names.get(far)}?`;
  return "; remove it (a note can stand in a // comment)";
}

/** Keys whose value is in the resolved configuration, for its list of sources. */
export const usedPaths = [...specs].flatMap(([path, spec]) => (spec.status === "used" ? [path as UsedPath] : []));
