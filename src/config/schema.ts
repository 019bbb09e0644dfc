/** The key table as a JSON Schema (draft 7), with which editors complete and check configuration files. */

import { joinPath } from "./json.ts";
import type { KeySpec, UnusedKey } from "./key-kinds.ts";
import { aliases, keys } from "./keys.ts";
import { notePattern } from "./known-keys.ts";
import { sectionFor } from "./shorthands.ts";
import { anyCase, type JsonSchema } from "./value-types.ts";

/** Sections by name, down to the schemas of values. */
type Tree = Map<string, Tree | JsonSchema>;

export function configSchema(): JsonSchema {
  const tree: Tree = new Map();
  tree.set("$schema", { type: "string", description: "where this schema is, for the editor" });
  for (const [path, spec] of Object.entries(keys) as [string, KeySpec][]) place(tree, path, valueSchema(spec));
  for (const [alias, path] of Object.entries(aliases)) {
    const named = find(tree, path);
    if (named instanceof Map) place(tree, alias, named);
    else if (named !== undefined) place(tree, alias, { ...named, description: `another spelling of ${path}` });
  }
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Shunya's configuration, in DeepSpeed's words",
    ...sectionSchema(tree, ""),
  };
}

/** Notes may stand anywhere; the reader names them. */
const notes = { [anyCase(notePattern)]: { description: "a note" } };

/** Puts a schema at a dotted path, with the sections above it. */
function place(tree: Tree, path: string, schema: Tree | JsonSchema): void {
  const dot = path.indexOf(".");
  if (dot === -1) {
    tree.set(path, schema);
    return;
  }
  const name = path.slice(0, dot);
  const found = tree.get(name);
  const inner: Tree = found instanceof Map ? found : new Map();
  tree.set(name, inner);
  place(inner, path.slice(dot + 1), schema);
}

function find(tree: Tree, path: string): Tree | JsonSchema | undefined {
  let at: Tree | JsonSchema | undefined = tree;
  for (const name of path.split(".")) at = at instanceof Map ? at.get(name) : undefined;
  return at;
}

function sectionSchema(tree: Tree, path: string): JsonSchema {
  const properties = Object.fromEntries(
    [...tree].map(([name, inner]) => [name, inner instanceof Map ? sectionSchema(inner, joinPath(path, name)) : inner]),
  );
  const object = { type: "object", properties, patternProperties: notes, additionalProperties: false };
  const forms = path === "" ? [] : plainForms(path);
  return forms.length === 0 ? object : { anyOf: [object, ...forms] };
}

/** What may stand in place of a section, if not well. */
function plainForms(section: string): JsonSchema[] {
  const values = [true, false, null].filter((value) => sectionFor(section, { kind: "scalar", value }).kind !== "wrong");
  return values.length === 0 ? [] : [{ enum: values }];
}

function valueSchema(spec: KeySpec): JsonSchema {
  switch (spec.status) {
    case "used": {
      const others = [{ const: "auto" }, ...(spec.nullable ? [{ type: "null" }] : [])];
      const isPlain = spec.leftOut !== undefined && typeof spec.leftOut !== "object";
      return {
        description: spec.doc,
        anyOf: [spec.type.schema, ...others],
        ...(isPlain && { default: spec.leftOut }),
      };
    }
    case "fixed":
      return { description: `only ${spec.wanted}: ${spec.why}`, ...spec.schema };
    case "replaced":
      return { description: `an old key; write ${spec.by}`, deprecated: true, ...spec.type.schema };
    case "unused": {
      const value = spec.type && { anyOf: [spec.type.schema, { enum: unsaid(spec) }] };
      return { description: `has no effect here: ${spec.why}`, ...value };
    }
  }
}

const unsaid = ({ obeyed, deepspeed }: UnusedKey) => [
  ...new Set(["auto", null, ...obeyed, ...(deepspeed === undefined ? [] : [deepspeed])]),
];
