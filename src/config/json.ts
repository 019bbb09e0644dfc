/** Configuration files, texts and objects as one kind of tree; in a file every key has its line and column. */

import { readFileSync, statSync } from "node:fs";
import { ConfigError } from "../errors/errors.ts";
import { maxDepth, parseHjson } from "./hjson.ts";

export type ConfigScalar = string | number | boolean | null;

export type ConfigNode =
  | { readonly kind: "object"; readonly members: readonly ConfigMember[] }
  | { readonly kind: "array"; readonly items: readonly ConfigNode[] }
  | { readonly kind: "scalar"; readonly value: ConfigScalar };

export interface ConfigMember {
  readonly key: string;
  /** Where the key stands, from 1; undefined in a configuration that is not a file. */
  readonly line: number | undefined;
  readonly column: number | undefined;
  readonly value: ConfigNode;
}

export interface ParsedConfig {
  /** How errors name this configuration: a file name, or words such as "the config object". */
  readonly fileName: string;
  readonly root: ConfigNode;
}

/** Far above any real configuration; what is larger is some other file given by mistake. */
const maxCharacters = 4 * 1024 * 1024;

/** Reads a configuration file. Throws ConfigError that lists every problem of its syntax. */
export function parseConfigFile(path: string): ParsedConfig {
  const fail = (message: string) => new ConfigError(path, [{ path: "(file)", level: "error", message }]);
  let bytes: Buffer;
  try {
    const stat = statSync(path);
    if (!stat.isFile()) throw fail("this is a folder or a device; wanted a configuration file");
    if (stat.size > maxCharacters) throw fail(`the file has ${stat.size} bytes; wanted at most ${maxCharacters}`);
    bytes = readFileSync(path);
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const code = (error as NodeJS.ErrnoException).code;
    throw fail(code === "ENOENT" ? "no such file; check the path given to --config" : (error as Error).message);
  }
  if ([0xfeff, 0xfffe].includes(bytes.length < 2 ? 0 : bytes.readUInt16LE())) {
    throw fail("the file is UTF-16 text; save it as UTF-8");
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw fail("the file is not UTF-8 text; save it as UTF-8");
  }
  return parseConfigText(text, path);
}

/** Parses configuration text; `fileName` is how errors name it. Throws ConfigError with every syntax problem. */
export function parseConfigText(text: string, fileName: string): ParsedConfig {
  const fail = (message: string) => new ConfigError(fileName, [{ path: "(file)", level: "error", message }]);
  if (text.length > maxCharacters) {
    throw fail(`the text has ${text.length} characters; wanted at most ${maxCharacters}`);
  }
  const content = text.startsWith("\uFEFF") ? text.slice(1) : text;
  if (content.trim() === "") throw fail('the file is empty; wanted an object such as { "train_batch_size": 8 }');
  const { root, problems } = parseHjson(content);
  if (root === undefined || problems.length > 0) throw new ConfigError(fileName, problems);
  return { fileName, root };
}

/** The same tree for a configuration given as a JavaScript object. */
export function parseConfigObject(value: unknown, fileName = "the config object"): ParsedConfig {
  return { fileName, root: nodeFromValue(value, "", 0, fileName) };
}

/** A JavaScript value as a node; anything that JSON cannot hold is a ConfigError. */
export function nodeFromValue(value: unknown, path: string, depth: number, fileName: string): ConfigNode {
  const fail = (message: string) => new ConfigError(fileName, [{ path: path || "(root)", level: "error", message }]);
  if (depth > maxDepth) throw fail(`more than ${maxDepth} levels, or an object that holds itself`);
  if (Array.isArray(value)) {
    return { kind: "array", items: value.map((item, i) => nodeFromValue(item, `${path}[${i}]`, depth + 1, fileName)) };
  }
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .map(([key, member]) => ({
        key,
        line: undefined,
        column: undefined,
        value: nodeFromValue(member, joinPath(path, key), depth + 1, fileName),
      }));
    return { kind: "object", members };
  }
  if (value === null || typeof value === "string" || typeof value === "number" || typeof value === "boolean") {
    return { kind: "scalar", value };
  }
  throw fail(`found a ${typeof value}; wanted a value that JSON can hold`);
}

export function joinPath(parent: string, key: string): string {
  return parent === "" ? key : `${parent}.${key}`;
}
