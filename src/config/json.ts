/** Configuration files, texts and objects as one kind of tree; in a file every key has its line and column. */

import { readFileSync, statSync } from "node:fs";
import { ConfigError, type ConfigProblem } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
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

/** A configuration as far as it can be read, to show it with all that is wrong. */
export interface ConfigReading {
  /** Undefined: nothing can be made of it. Where there are problems, slips are read as what was probably meant. */
  readonly file: ParsedConfig | undefined;
  readonly problems: readonly ConfigProblem[];
  /** The text in which problems have their lines. */
  readonly text: string;
}

/** Reads a configuration file. Throws ConfigError that lists every problem of its syntax. */
export function parseConfigFile(path: string): ParsedConfig {
  return withoutProblems(readConfigFile(path), path);
}

/** Parses configuration text; `fileName` is how errors name it. Throws ConfigError with every syntax problem. */
export function parseConfigText(text: string, fileName: string): ParsedConfig {
  return withoutProblems(readConfigText(text, fileName), fileName);
}

function withoutProblems({ file, problems }: ConfigReading, fileName: string): ParsedConfig {
  if (file === undefined || problems.length > 0) throw new ConfigError(fileName, problems);
  return file;
}

/** Never throws. */
export function readConfigFile(path: string): ConfigReading {
  let bytes: Buffer;
  try {
    const stat = statSync(path);
    if (!stat.isFile()) return unreadable("this is a folder or a device; wanted a configuration file");
    if (stat.size > maxCharacters)
      return unreadable(`the file has ${stat.size} bytes; wanted at most ${maxCharacters}`);
    bytes = readFileSync(path);
  } catch (error) {
    return unreadable(`${reasonOf(error)}; check the path`);
  }
  const mark = bytes.length < 2 ? 0 : bytes.readUInt16LE();
  if (mark === 0xfeff || mark === 0xfffe) return unreadable("the file is UTF-16 text; save it as UTF-8");
  try {
    return readConfigText(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes), path);
  } catch {
    return unreadable("the file is not UTF-8 text; save it as UTF-8");
  }
}

/** Never throws. */
export function readConfigText(text: string, fileName: string): ConfigReading {
  if (text.length > maxCharacters) {
    return unreadable(`the text has ${text.length} characters; wanted at most ${maxCharacters}`);
  }
  const content = text.startsWith("\uFEFF") ? text.slice(1) : text;
  if (content.trim() === "") {
    return unreadable('the file is empty; wanted an object such as { "train_batch_size": 8 }');
  }
  const { root, problems } = parseHjson(content);
  return { file: root && { fileName, root }, problems, text: content };
}

function unreadable(message: string): ConfigReading {
  return { file: undefined, problems: [{ path: "(file)", level: "error", message }], text: "" };
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
  const name = key === "" ? '""' : key;
  return parent === "" ? name : `${parent}.${name}`;
}
