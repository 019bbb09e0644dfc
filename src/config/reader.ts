/** Walks a configuration tree against the key table: typed values by path, and every problem on the way. */

import type { ConfigProblem } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";
import { type ConfigNode, joinPath } from "./json.ts";
import { type KeySpec, passesUnsaid, type ReplacedKey, type UnusedKey, type UsedKey } from "./key-kinds.ts";
import { keys, misspellings, type UsedPath } from "./keys.ts";
import { canonicalPath, isNote, placeholderIn, sections, specs, splitPath } from "./known-keys.ts";
import { sectionFor } from "./shorthands.ts";
import type { Place, ValueSource } from "./types.ts";
import { judgeUnknown, mostTold, type UnknownKey } from "./unknown-keys.ts";
import { describe, isReadFromText, repairFor, wantedOf } from "./value-types.ts";

type Read<K extends UsedPath> = (typeof keys)[K] extends UsedKey<infer T> ? T : never;
/** What `get` answers: the value, or the table's default; undefined only where the table has none. */
type Value<K extends UsedPath> = Read<K> | Extract<(typeof keys)[K]["leftOut"], undefined>;

interface Entry {
  readonly place: Place;
  readonly value: unknown;
}

/** Far longer than any path of the table. */
const longestPath = 200;

/** One "auto" and what it became. */
export interface AutoValue {
  readonly path: string;
  readonly value: unknown;
  readonly source: ValueSource;
  /** Where the value comes from, in words. */
  readonly why: string;
}

interface UnusedHere {
  readonly path: string;
  readonly place: Place;
  readonly why: string;
}

/**
 * The values of one configuration. Add the flags first: what the file says of a key that a flag gives is not even looked at, so a
 * flag can repair a file. Call `finish` when all is added.
 */
export class Settings {
  readonly problems: ConfigProblem[] = [];
  readonly autos: AutoValue[] = [];
  readonly #entries = new Map<string, Entry>();
  readonly #autoPlaces = new Map<string, Place>();
  readonly #unreadable = new Map<string, Place>();
  readonly #leftToDefault = new Map<string, Place>();
  readonly #flagged = new Set<string>();
  readonly #sectionPlaces = new Map<string, Place>();
  readonly #unknown: UnknownKey[] = [];
  readonly #unknownPlaces = new Map<string, Place>();
  readonly #notes: Place[] = [];
  readonly #unused: UnusedHere[] = [];
  readonly #replaced: { readonly spec: ReplacedKey; readonly node: ConfigNode; readonly place: Place }[] = [];

  /** Takes over every key of a tree; `place.written` is where the tree's root stands ("" for a whole file). */
  add(node: ConfigNode, place: Place): void {
    const path = place.written;
    const canonical = canonicalPath(path);
    const spec = specs.get(canonical);
    if (spec !== undefined) this.#addValue(canonical, spec, node, place);
    else if (!sections.has(canonical)) this.#addUnknown(...splitPath(path), node, place);
    else if (node.kind === "object") {
      this.#sectionPlaces.set(canonical, place);
      for (const { key, line, column, value } of node.members) {
        const memberPlace = { written: joinPath(path, key), source: place.source, line, column };
        // A dotted key is one odd name, not a path: DeepSpeed does not read it as one either.
        if (key === "" || key.includes(".")) this.#addUnknown(path, key, value, memberPlace);
        else this.add(value, memberPlace);
      }
    } else this.#sectionAsValue(canonical, node, place);
  }

  /** Settles what needs the whole file: old keys beside new ones, unknown names, keys without effect. */
  finish(): void {
    for (const { spec, node, place } of this.#replaced) this.#replace(spec, node, place);
    for (const { level, place, message } of judgeUnknown(this.#unknown, this.#knowsNothing()))
      this.#tell(level, place, message);
    for (const place of this.#notes.slice(0, mostTold))
      this.#tell("warning", place, "a note, not a setting; a // comment can say it too");
    const more = this.#notes.length - mostTold;
    if (more > 0)
      this.#tell("warning", this.#notes[mostTold]!, `this note and ${more - 1} more are no settings either`);
    this.#tellUnused();
  }

  get<K extends UsedPath>(path: K): Value<K> {
    const entry = this.#entries.get(path);
    // The entry's value was read by this key's own type, so the table vouches for its type.
    return (entry === undefined ? keys[path].leftOut : entry.value) as Value<K>;
  }

  has(path: UsedPath): boolean {
    return this.#entries.has(path);
  }

  isAuto(path: UsedPath): boolean {
    return this.#autoPlaces.has(path);
  }

  /** True where a value was given that could not be read: already a problem, so no later check need complain of it. */
  isUnreadable(path: UsedPath): boolean {
    return this.#unreadable.has(path);
  }

  /** True where the section stands in the file or was given by a flag, as an object. */
  hasSection(section: string): boolean {
    return this.#sectionPlaces.has(section);
  }

  /** Names of a section that no row of the table has, for sections that are judged by their type. */
  unknownIn(section: string): { readonly name: string; readonly path: string }[] {
    return this.#unknown.filter((u) => u.section === section).map((u) => ({ name: u.name, path: u.place.written }));
  }

  /** Where a key's value was given; undefined for a key that was left out. */
  placeOf(path: string): Place | undefined {
    const read = this.#entries.get(path)?.place ?? this.#leftToDefault.get(path);
    const unread = this.#autoPlaces.get(path) ?? this.#unreadable.get(path);
    return read ?? unread ?? this.#unknownPlaces.get(path);
  }

  /** Gives an "auto" its value. */
  fill<K extends UsedPath>(path: K, value: Read<K> | undefined, source: ValueSource, why: string): void {
    const place = this.#autoPlaces.get(path);
    if (place === undefined) return;
    const filled = { ...place, source };
    if (value === undefined) this.#leftToDefault.set(path, filled);
    else this.#entries.set(path, { place: filled, value });
    this.autos.push({ path, value: value ?? keys[path].leftOut, source, why });
    this.#autoPlaces.delete(path);
  }

  autoPaths(): UsedPath[] {
    return [...this.#autoPlaces.keys()] as UsedPath[];
  }

  /** Adds an error at a key or section, with the line and spelling that the user wrote. */
  error(path: string, message: string): void {
    this.#problem("error", path, message);
  }

  warn(path: string, message: string): void {
    this.#problem("warning", path, message);
  }

  #problem(level: ConfigProblem["level"], path: string, message: string): void {
    this.#tell(
      level,
      this.placeOf(path) ?? this.#sectionPlaces.get(path) ?? { written: path, source: "default" },
      message,
    );
  }

  #tell(level: ConfigProblem["level"], place: Place, message: string): void {
    const { written, line, column } = place;
    const path = written.length > longestPath ? `${written.slice(0, longestPath)}...` : written;
    this.problems.push({ path: printable(path) || "(root)", line, column, level, message: printable(message) });
  }

  #addValue(path: string, spec: KeySpec, node: ConfigNode, place: Place): void {
    if (place.source === "flag") this.#flagged.add(path);
    else if (this.#flagged.has(path)) return;
    if (Object.hasOwn(misspellings, place.written))
      this.#tell("warning", place, `a misspelling that old tutorials had; read as ${path}`);
    switch (spec.status) {
      case "used":
        this.#addUsed(path, spec, node, place);
        break;
      case "fixed":
        if (!spec.accepts(node))
          this.#tell("error", place, `found ${describe(node)}; wanted ${spec.wanted}: ${spec.why}${tailFor(node)}`);
        break;
      case "unused":
        this.#addUnused(path, spec, node, place);
        break;
      case "replaced":
        if (place.source === "flag") this.#replace(spec, node, place);
        else this.#replaced.push({ spec, node, place });
        break;
      default:
        spec satisfies never;
    }
  }

  #addUsed(path: string, spec: UsedKey<unknown>, node: ConfigNode, place: Place): void {
    const scalar = node.kind === "scalar" ? node.value : undefined;
    if (scalar === null && spec.nullable) {
      this.#entries.delete(path);
      return;
    }
    if (scalar === "auto") {
      this.#entries.delete(path);
      this.#autoPlaces.set(path, place);
      return;
    }
    const value = spec.type.read(node);
    const earlier = this.#entries.get(path);
    if (earlier !== undefined && earlier.place.written !== place.written && place.source === "file") {
      const { written, line } = earlier.place;
      const same = JSON.stringify(earlier.value) === JSON.stringify(value);
      const message = `this is the same key as ${written}${line === undefined ? "" : ` on line ${line}`}; keep one of the two`;
      this.#tell(same ? "warning" : "error", place, message);
      return;
    }
    if (value !== undefined) {
      this.#entries.set(path, { place, value });
      this.#autoPlaces.delete(path);
      if (place.source === "file" && isReadFromText(node, value))
        this.#tell("warning", place, `found ${describe(node)}, read as ${value}; write it without quotes`);
      return;
    }
    const whenLeftOut = spec.leftOut === undefined ? "it is derived" : `it is ${JSON.stringify(spec.leftOut)}`;
    const leaveOut = scalar === null ? `; leave the key out (${whenLeftOut})` : "";
    const told = spec.explain?.(node) ?? `found ${describe(node)}; wanted ${wantedOf(spec.type, node)}`;
    this.#tell("error", place, `${told}${repairFor(node, whenLeftOut, spec.type)}${leaveOut}${tailFor(node)}`);
    this.#unreadable.set(path, place);
  }

  #addUnused(path: string, spec: UnusedKey, node: ConfigNode, place: Place): void {
    if (passesUnsaid(spec, node)) return;
    const isAuto = node.kind === "scalar" && node.value === "auto";
    if (spec.type !== undefined && !isAuto && spec.type.read(node) === undefined)
      this.#tell("error", place, `found ${describe(node)}; wanted ${wantedOf(spec.type, node)}${tailFor(node)}`);
    this.#unused.push({ path, place, why: spec.why });
  }

  /** An old key takes the place of a new one. */
  #replace(spec: ReplacedKey, node: ConfigNode, place: Place): void {
    const section = splitPath(spec.by)[0];
    const wholeSection = section.includes(".");
    const newer = this.placeOf(spec.by) ?? (wholeSection ? this.#sectionPlaces.get(section) : undefined);
    if (newer !== undefined && newer.source === "file" && place.source === "file") {
      const known = `${newer.written}${newer.line === undefined ? "" : ` on line ${newer.line}`}`;
      this.#tell("error", place, `an old name of what ${known} says; remove this one`);
      return;
    }
    const value = spec.type.read(node);
    if (value === undefined) {
      this.#tell("error", place, `found ${describe(node)}; wanted ${wantedOf(spec.type, node)}${tailFor(node)}`);
      return;
    }
    const now = spec.convert(value);
    const instead = now === undefined ? "leave it out" : `write ${spec.by}: ${JSON.stringify(now)}`;
    this.#tell("warning", place, `an old key, read as it was meant; ${instead} instead`);
    const target = specs.get(spec.by);
    if (now !== undefined && target !== undefined)
      this.#addValue(spec.by, target, { kind: "scalar", value: now }, place);
  }

  /** Where an object is wanted and something else stands. */
  #sectionAsValue(section: string, node: ConfigNode, place: Place): void {
    const answer = sectionFor(section, node);
    if (answer.kind === "leftOut") {
      const inside = [...specs.keys()].filter((path) => path.startsWith(`${section}.`));
      if (place.source === "flag") for (const path of inside) this.#flagged.add(path);
      return;
    }
    if (answer.kind === "value") {
      if (!this.#flagged.has(answer.path)) this.#tell("warning", place, answer.message);
      this.#addValue(answer.path, specs.get(answer.path)!, { kind: "scalar", value: answer.value }, place);
      return;
    }
    const [first] = sections.get(section)!;
    this.#tell("error", place, `found ${describe(node)}; wanted an object such as { "${first}": ... }${tailFor(node)}`);
  }

  #addUnknown(section: string, name: string, node: ConfigNode, place: Place): void {
    if (section === "" && name === "$schema") return;
    if (isNote(name)) {
      this.#notes.push(place);
      return;
    }
    this.#unknown.push({ section: canonicalPath(section), name, node, place });
    this.#unknownPlaces.set(place.written, place);
  }

  #knowsNothing(): boolean {
    const fromFile = (place: Place): boolean => place.source === "file";
    const places = [...this.#entries.values()].map((entry) => entry.place);
    const all = [
      ...places,
      ...this.#autoPlaces.values(),
      ...this.#unreadable.values(),
      ...this.#sectionPlaces.values(),
    ];
    const known = all.filter((place) => fromFile(place) && place.written !== "");
    return known.length === 0 && this.#unused.length === 0 && this.problems.length === 0;
  }

  /** One warning for all keys of a section that have no effect for the same reason. */
  #tellUnused(): void {
    const groups = new Map<string, UnusedHere[]>();
    for (const item of this.#unused) {
      const key = `${splitPath(item.path)[0]}\n${item.why}`;
      groups.set(key, [...(groups.get(key) ?? []), item]);
    }
    for (const [first, ...others] of groups.values()) {
      const also = others.length === 0 ? "" : `, nor ${others.map((other) => other.place.written).join(", ")}`;
      this.#tell("warning", first!.place, `has no effect here${also}: ${first!.why}`);
    }
  }
}

/** Says that a value was to be replaced by a script. */
function tailFor(node: ConfigNode): string {
  const found = node.kind === "scalar" && typeof node.value === "string" ? placeholderIn(node.value) : undefined;
  return found === undefined ? "" : `; ${found} is a placeholder that nothing has filled: write a value`;
}

/** Keys whose value is in the resolved configuration, for its list of sources. */
export const usedPaths = [...specs].flatMap(([path, spec]) => (spec.status === "used" ? [path as UsedPath] : []));
