/**
 * Configuration text to a small tree that remembers lines. JSON with `//`, `/* *\/` and `#` comments and trailing commas, as
 * DeepSpeed's own reader accepts them; a key written twice in one object is an error, as there.
 */

import { readFileSync, statSync } from "node:fs";
import { createScanner, type Node, type ParseError, parseTree, printParseErrorCode } from "jsonc-parser";
import { ConfigError, type ConfigProblem } from "../errors/errors.ts";

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
/** Far above DeepSpeed's deepest key (5); bounds the recursion of the parser and of our own walks. */
const maxDepth = 64;

/** Reads a configuration file. Throws ConfigError that lists every problem of its syntax. */
export function parseConfigFile(path: string): ParsedConfig {
  const fail = (message: string) => new ConfigError(path, [{ path: "(file)", level: "error", message }]);
  let bytes: Buffer;
  try {
    const stat = statSync(path);
    if (!stat.isFile()) throw fail("this is a folder or a device; wanted a JSON file");
    if (stat.size > maxCharacters) throw fail(`the file has ${stat.size} bytes; wanted at most ${maxCharacters}`);
    bytes = readFileSync(path);
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const code = (error as NodeJS.ErrnoException).code;
    throw fail(code === "ENOENT" ? "no such file; check the path given to --config" : (error as Error).message);
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
  const json = blankHashComments(text.startsWith("\uFEFF") ? ` ${text.slice(1)}` : text);
  if (json.trim() === "") throw fail("the file is empty; wanted a JSON object such as { ... }");
  if (nestingDepth(json) > maxDepth) throw fail(`more than ${maxDepth} levels of braces; wanted a DeepSpeed config`);

  const lineOf = lineFinder(json);
  const errors: ParseError[] = [];
  const tree = parseTree(json, errors, { allowTrailingComma: true });
  const problems = syntaxProblems(json, errors, lineOf);
  const root = tree === undefined ? undefined : convert(tree, "", lineOf, problems);
  if (root !== undefined && root.kind !== "object" && problems.length === 0) {
    problems.push({
      path: "(file)",
      level: "error",
      message: `found ${root.kind === "array" ? "a list" : "a bare value"}; wanted { ... }`,
    });
  }
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

/** Replaces `# ...` comments by spaces of the same length, so that positions stay; strings and other comments are left alone. */
function blankHashComments(text: string): string {
  const skip = /"(?:[^"\\\n]|\\.)*"?|\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|#[^\n]*/g;
  return text.replace(skip, (piece) => (piece.startsWith("#") ? " ".repeat(piece.length) : piece));
}

/** Token codes of jsonc-parser's scanner, whose const enum cannot be imported from erasable TypeScript. */
const token = { openBrace: 1, closeBrace: 2, openBracket: 3, closeBracket: 4, end: 17 } as const;

function nestingDepth(text: string): number {
  let depth = 0;
  let deepest = 0;
  const scanner = createScanner(text, true);
  for (let kind: number = scanner.scan(); kind !== token.end; kind = scanner.scan()) {
    if (kind === token.openBrace || kind === token.openBracket) deepest = Math.max(deepest, ++depth);
    else if (kind === token.closeBrace || kind === token.closeBracket) depth--;
  }
  return deepest;
}

function lineFinder(text: string): (offset: number) => number {
  const starts = [0];
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return (offset) => {
    let low = 0;
    let high = starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (starts[middle]! <= offset) low = middle;
      else high = middle;
    }
    return low + 1;
  };
}

/** Words that other languages write where JSON wants something else. */
const foreignWords: Readonly<Record<string, string>> = {
  True: "write true",
  False: "write false",
  None: "write null, or leave the key out",
  NaN: "no key takes NaN; write a number",
  Infinity: "no key takes Infinity; write a number, or leave the key out",
  "-Infinity": "no key takes Infinity; write a number, or leave the key out",
};

/** One problem a line: the parser reports several consequences of one slip. */
function syntaxProblems(text: string, errors: readonly ParseError[], lineOf: (offset: number) => number) {
  const problems: ConfigProblem[] = [];
  const seen = new Set<number>();
  for (const error of errors) {
    const line = lineOf(error.offset);
    if (seen.has(line)) continue;
    seen.add(line);
    const found = /^[^\s,:{}[\]"]{1,24}/.exec(text.slice(error.offset, error.offset + 24))?.[0];
    const what = printParseErrorCode(error.error).replace(/([a-z])([A-Z])/g, (_, a, b) => `${a} ${b.toLowerCase()}`);
    const repair =
      found === undefined ? undefined : Object.hasOwn(foreignWords, found) ? foreignWords[found] : undefined;
    const quotes = found?.startsWith("'") ? 'write "double" quotes' : undefined;
    const where = found === undefined ? "" : ` at ${JSON.stringify(found)}`;
    const hint = repair ?? quotes;
    problems.push({
      path: "(syntax)",
      line,
      level: "error",
      message: `${what}${where}${hint === undefined ? "" : `; ${hint}`}`,
    });
  }
  return problems;
}

function convert(node: Node, path: string, lineOf: (offset: number) => number, problems: ConfigProblem[]): ConfigNode {
  if (node.type === "array") {
    const items = (node.children ?? []).map((child, i) => convert(child, `${path}[${i}]`, lineOf, problems));
    return { kind: "array", items };
  }
  if (node.type !== "object") return { kind: "scalar", value: (node.value ?? null) as ConfigScalar };
  const firstLines = new Map<string, number>();
  const members: ConfigMember[] = [];
  for (const property of node.children ?? []) {
    const [keyNode, valueNode] = property.children ?? [];
    if (keyNode === undefined || valueNode === undefined) continue; // already a syntax problem
    const key = String(keyNode.value);
    const line = lineOf(keyNode.offset);
    const memberPath = joinPath(path, key);
    const first = firstLines.get(key);
    if (first !== undefined) {
      problems.push({
        path: memberPath,
        line,
        level: "error",
        message: `this key is already on line ${first}; keep one of the two`,
      });
    }
    firstLines.set(key, line);
    members.push({ key, line, column: undefined, value: convert(valueNode, memberPath, lineOf, problems) });
  }
  return { kind: "object", members };
}
