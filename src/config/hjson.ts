/**
 * DeepSpeed's configuration syntax, which is Hjson, to a tree that remembers lines and columns: JSON with `//`, `#` and `/* *\/`
 * comments, commas that may be missing or trailing, keys and texts without quotes, '''texts of several lines''', and root braces
 * that may be left out. It reads in one pass, in linear time, and goes on after a slip where it is clear what was meant.
 * Stricter than Hjson where a configuration never means what it says: a key twice in one object, a comment without end, and a text
 * without quotes that swallows what looks like JSON, another key or a comment (Hjson lets it run to the end of the line).
 */

import type { ConfigProblem } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";
import { type ConfigMember, type ConfigNode, type ConfigScalar, joinPath } from "./json.ts";
import { Places } from "./places.ts";
import { readUnquoted, typographicQuotes } from "./unquoted.ts";

/** Far above DeepSpeed's deepest key (5); bounds the recursion of the parser and of our own walks. */
export const maxDepth = 64;
/** A file of another kind has a slip on every line; the first ones say enough. */
const maxProblems = 20;

/** Of a text without quotes, which may run to the end of its line; the line may be the whole file. */
const maxUnquoted = 2000;

export interface HjsonResult {
  /** Undefined where a slip left it unclear what was meant. */
  readonly root: ConfigNode | undefined;
  readonly problems: readonly ConfigProblem[];
}

/** Never throws: what is wrong is in `problems`, in the order of the text and at most one a line. */
export function parseHjson(text: string): HjsonResult {
  const parser = new Parser(text);
  let root: ConfigNode | undefined;
  try {
    root = parser.root();
  } catch (error) {
    if (error !== unclear) throw error;
  }
  return { root, problems: parser.problems() };
}

/** Thrown after a problem behind which nothing can be read. */
const unclear = Symbol("unclear");

const escapes: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
/** White space that Hjson does not take for white space; it comes with text copied from web pages. */
const invisible = /[\u00A0\u1680\u2000-\u200F\u2028\u2029\u202F\u205F\u2060\u3000\uFEFF]/;

class Parser {
  readonly #text: string;
  readonly #places: Places;
  readonly #problems = new Map<number, ConfigProblem>();
  #at = 0;
  /** Where the indentation says that a bracket lacks its end, although another end was found for it. */
  #unclosed: { readonly open: number; readonly close: number } | undefined;

  constructor(text: string) {
    this.#text = text;
    this.#places = new Places(text);
  }

  problems(): readonly ConfigProblem[] {
    return [...this.#problems.values()].sort((a, b) => a.line! - b.line!);
  }

  root(): ConfigNode {
    const nul = this.#text.indexOf("\0");
    if (nul !== -1) this.#stop(nul, "a NUL character: this is not a text file, or it is UTF-16; save it as UTF-8");
    this.#blank();
    const open = this.#at;
    const first = this.#text[open];
    if (first === "[") this.#stop(open, "found a list; wanted an object { ... }");
    if (first !== "{") return this.#members("", 1, undefined);
    this.#at++;
    const root = this.#members("", 1, open);
    this.#blank();
    const rest = this.#text[this.#at];
    if (rest === "}") this.#stop(this.#at, "this } closes nothing: one } too many, or one { missing before it");
    if (rest !== undefined) this.#stop(this.#at, "text after the } that ends the configuration; remove one of the two");
    return root;
  }

  /** Members up to the } of the { at `open`, or, where the root has no braces, up to the end. */
  #members(path: string, depth: number, open: number | undefined): ConfigNode {
    const members: ConfigMember[] = [];
    const firstLines = new Map<string, number>();
    for (this.#blank(); ; this.#comma()) {
      const start = this.#at;
      const character = this.#text[start];
      if (character === undefined) {
        if (open === undefined) return { kind: "object", members };
        this.#neverClosed(open, "{", "}");
      }
      if (character === "}" && open !== undefined) {
        this.#checkIndent(open, this.#at++);
        return { kind: "object", members };
      }
      const key = this.#key(open === undefined);
      const memberPath = joinPath(path, key);
      const { line, column } = this.#places.of(start);
      const first = firstLines.get(key);
      if (first !== undefined) {
        this.#problem(start, `this key is already on line ${first}; keep one of the two`, memberPath);
      }
      firstLines.set(key, first ?? line);
      this.#colon(key, open === undefined && members.length === 0);
      members.push({ key, line, column, value: this.#value(key, memberPath, depth) });
    }
  }

  #key(isRootWithoutBraces: boolean): string {
    const start = this.#at;
    const character = this.#text[start]!;
    if (character === '"' || character === "'") return this.#quoted(character);
    const bare = this.#match(/[^\s:{}[\],]+/y);
    if (bare === undefined) {
      const closes = character === "}" && isRootWithoutBraces;
      if (closes) this.#stop(start, "this } closes nothing: one } too many, or the { at the start is missing");
      if (character === ":") this.#stop(start, "a colon after a value: the key before it has no value of its own");
      this.#stop(start, `found ${character}; wanted a key such as "stage":, or the end of the object`);
    }
    const meant = typographicQuotes(bare);
    if (meant === undefined) return bare;
    this.#problem(start, meant.slip!.message);
    return meant.value;
  }

  #colon(key: string, isFirst: boolean): void {
    const end = this.#at;
    this.#blank();
    const found = this.#text[this.#at];
    if (found === ":") this.#at++;
    else if (found === "=" || found === "：") {
      this.#problem(this.#at, `found ${found} after ${quote(key)}; write a colon`);
      this.#at++;
    } else {
      const what = found === undefined ? "the end of the file" : quote(this.#match(/[^\s]{1,20}/y) ?? found);
      const kind = isFirst ? '; a configuration looks like { "train_batch_size": 8, ... }' : "";
      this.#stop(end, `found ${what} after ${quote(key)}; wanted a colon and a value${kind}`);
    }
  }

  #value(key: string, path: string, depth: number): ConfigNode {
    this.#blank();
    const start = this.#at;
    const character = this.#text[start];
    if (character === "{" || character === "[") {
      if (depth >= maxDepth) this.#stop(start, `more than ${maxDepth} levels of braces; wanted a DeepSpeed config`);
      this.#at++;
      return character === "{" ? this.#members(path, depth + 1, start) : this.#items(path, depth + 1, start);
    }
    if (this.#text.startsWith("'''", start)) return scalar(this.#longText());
    if (character === '"' || character === "'") return scalar(this.#quoted(character));
    if (character === undefined || ",:}]".includes(character)) {
      this.#stop(start, `found ${character ?? "the end of the file"}; wanted a value of ${key || path}`);
    }
    return scalar(this.#unquoted(path));
  }

  #items(path: string, depth: number, open: number): ConfigNode {
    const items: ConfigNode[] = [];
    for (this.#blank(); this.#text[this.#at] !== "]"; this.#comma()) {
      if (this.#text[this.#at] === undefined) this.#neverClosed(open, "[", "]");
      items.push(this.#value("", `${path}[${items.length}]`, depth));
    }
    this.#at++;
    return { kind: "array", items };
  }

  #unquoted(path: string): ConfigScalar {
    const start = this.#at;
    const line = this.#match(/[^\r\n]{1,2000}/y)!;
    const { value, length, slip } = readUnquoted(line);
    if (line.length === maxUnquoted && length >= line.trimEnd().length)
      this.#stop(start, `a text without quotes of more than ${maxUnquoted} characters; put quotes around it`);
    this.#at = start + length;
    if (slip !== undefined) this.#problem(start + slip.at, slip.message, path);
    return value;
  }

  #quoted(mark: string): string {
    const open = this.#at++;
    let value = "";
    for (;;) {
      value += this.#match(mark === '"' ? /[^"\\\r\n]+/y : /[^'\\\r\n]+/y) ?? "";
      const character = this.#text[this.#at++];
      if (character === mark) return value;
      if (character !== "\\") this.#stop(open, `this ${mark} is not closed on its line; add the closing ${mark}`);
      value += this.#escape();
    }
  }

  /** What stands behind a backslash. */
  #escape(): string {
    const at = this.#at - 1;
    const code = this.#match(/u[0-9a-fA-F]{4}/y);
    if (code !== undefined) return String.fromCharCode(Number.parseInt(code.slice(1), 16));
    const character = this.#text[this.#at] ?? "";
    if (/[\r\n]|^$/.test(character)) return ""; // the text is not closed, which is said next
    this.#at++;
    if (`"'\\/`.includes(character)) return character;
    if (Object.hasOwn(escapes, character)) return escapes[character]!;
    this.#problem(at, `\\${character} has no meaning; write \\\\ for one backslash`);
    return character;
  }

  /** Between ''' and ''': every line loses the indentation that the opening ''' has; so does the first and last line break. */
  #longText(): string {
    const open = this.#at;
    const indent = this.#places.of(open).column - 1;
    const close = this.#text.indexOf("'''", open + 3);
    if (close === -1) this.#stop(open, "this ''' is never closed; add the closing '''");
    this.#at = close + 3;
    const raw = this.#text.slice(open + 3, close).replaceAll("\r", "");
    const lines = raw.replace(/^[^\S\n]*/, "").split("\n");
    const trimmed = lines.map((line, i) => {
      if (i === 0) return line;
      const space = /^\s*/.exec(line.slice(0, indent))![0].length;
      return line.slice(space);
    });
    if (trimmed.length > 1 && trimmed[0] === "") trimmed.shift();
    if (trimmed.length > 1 && trimmed.at(-1) === "") trimmed.pop();
    return trimmed.join("\n");
  }

  /** White space, comments, and one comma between two values. */
  #comma(): void {
    this.#blank();
    for (let count = 0; ",，".includes(this.#text[this.#at] ?? "end"); count++) {
      if (this.#text[this.#at] === "，") this.#problem(this.#at, "found ，; write an ordinary comma");
      else if (count > 0) this.#problem(this.#at, "a second comma; remove it");
      this.#at++;
      this.#blank();
    }
  }

  #blank(): void {
    for (;;) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: Hjson takes every control character for white space
      this.#match(/[\u0000-\u0020]+/y);
      const start = this.#at;
      const character = this.#text[start];
      if (character === undefined) return;
      if (character === "#" || this.#text.startsWith("//", start)) this.#match(/[^\n]+/y);
      else if (this.#text.startsWith("/*", start)) {
        const end = this.#text.indexOf("*/", start + 2);
        if (end === -1) this.#stop(start, "this /* is never closed; add the closing */");
        this.#at = end + 2;
      } else if (invisible.test(character)) {
        const code = character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
        this.#problem(start, `an invisible character (U+${code}); write an ordinary space`);
        this.#at++;
      } else return;
    }
  }

  /** The text that a sticky pattern matches here, which is then behind us. */
  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  #problem(at: number, message: string, path = "(syntax)"): void {
    const { line, column } = this.#places.of(at);
    if (this.#problems.has(line)) return;
    const excerpt = this.#places.excerpt(at);
    this.#problems.set(line, {
      path: printable(path),
      line,
      column,
      level: "error",
      message: printable(message),
      excerpt,
    });
    if (this.#problems.size >= maxProblems) throw unclear;
  }

  /** Remembers the first bracket whose end stands further left than the line that it is on. */
  #checkIndent(open: number, close: number): void {
    const indent = this.#places.indent(close);
    const isFirst = this.#places.of(close).column === indent + 1;
    if (isFirst && indent < this.#places.indent(open)) this.#unclosed ??= { open, close };
  }

  #neverClosed(open: number, opening: string, closing: string): never {
    const likely = this.#unclosed;
    if (likely === undefined) this.#stop(open, `this ${opening} is never closed; add its ${closing}`);
    const { line } = this.#places.of(likely.close);
    this.#stop(likely.open, `this { is probably never closed: the } on line ${line} stands further left; add its }`);
  }

  #stop(at: number, message: string): never {
    this.#problem(at, message);
    throw unclear;
  }
}

function scalar(value: ConfigScalar): ConfigNode {
  return { kind: "scalar", value };
}

function quote(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}...` : text);
}
