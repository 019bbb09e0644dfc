/**
 * What stands without quotes: a number, true, false, null, or a text that in Hjson runs to the end of its line. Such a text is also
 * what most slips look like (Python's words, a missing comma or quote, YAML), so they are recognised here.
 */

import type { ConfigScalar } from "./json.ts";

export interface Unquoted {
  /** Where there is a slip: what was probably meant. */
  readonly value: ConfigScalar;
  /** Characters of it; reading goes on behind them. */
  readonly length: number;
  readonly slip?: { readonly at: number; readonly message: string } | undefined;
}

const number = /^-?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][-+]?\d+)?$/;
const words: ReadonlyMap<string, ConfigScalar> = new Map([
  ["true", true],
  ["false", false],
  ["null", null],
]);

const noNumber = "no key takes it; write a number, or leave the key out";
/** Words of other languages: what they mean, and what to do. */
const foreignWords: ReadonlyMap<string, readonly [ConfigScalar, string]> = new Map([
  ["True", [true, "write true"]],
  ["False", [false, "write false"]],
  ["TRUE", [true, "write true"]],
  ["FALSE", [false, "write false"]],
  ["None", [null, "write null, or leave the key out"]],
  ["undefined", [null, "write null, or leave the key out"]],
  ["NaN", [null, noNumber]],
  ["nan", [null, noNumber]],
  ["Infinity", [null, noNumber]],
  ["-Infinity", [null, noNumber]],
  ["inf", [null, noNumber]],
]);

/** Reads what starts at the start of `line`, the rest of a line, which is not empty. */
export function readUnquoted(line: string): Unquoted {
  const end = /[,}\]#]|\/[/*]/.exec(line)?.index ?? line.length;
  const head = line.slice(0, end).trim();
  const plain = wordOrNumber(head);
  if (plain !== undefined) return { value: plain, length: end };
  const text = line.trimEnd();
  const foreign = foreignWords.get(head);
  // At the end of a line DeepSpeed takes True for the text "True", which its booleans accept.
  if (foreign !== undefined && !(head === text && typeof foreign[0] === "boolean")) {
    return { value: foreign[0], length: end, slip: { at: 0, message: `found ${head}; ${foreign[1]}` } };
  }
  return (
    placeholder(text) ??
    typographicQuotes(text) ??
    missingComma(text) ??
    nestedKey(text) ??
    swallowed(text) ??
    whole(text)
  );
}

/** For keys too: “stage” is not "stage". */
export function typographicQuotes(text: string): (Unquoted & { readonly value: string }) | undefined {
  const open = /[“”„«»‘’‚`]/.exec(text);
  if (open === null) return undefined;
  const closing = text.slice(open.index + 1).search(/[“”«»‘’`]/);
  const close = closing === -1 ? text.length : open.index + 1 + closing;
  const value = text.slice(open.index + 1, close);
  const message = `${open[0]} is a typographic quote; write "`;
  return { value, length: Math.min(close + 1, text.length), slip: { at: open.index, message } };
}

function wordOrNumber(text: string): ConfigScalar | undefined {
  const word = words.get(text);
  if (word !== undefined) return word;
  return number.test(text) ? Number(text) : undefined;
}

function whole(text: string): Unquoted {
  return { value: text, length: text.length };
}

/** `${stage}`, `{{stage}}`, `<stage>` or `ZERO_STAGE` with JSON behind it, in a file that a script was to fill in. */
function placeholder(text: string): Unquoted | undefined {
  const found = /^(?:\$\{[^}]*\}|\$\w+|<[^>]*>|[A-Z][A-Z0-9]*_[A-Z0-9_]*(?=\s*[,}\]]))/.exec(text)?.[0];
  if (found === undefined) return undefined;
  const message = `found ${found}, an unfilled placeholder; write the value`;
  return { value: null, length: found.length, slip: { at: 0, message } };
}

function missingComma(text: string): Unquoted | undefined {
  const first = /^\S+/.exec(text)![0];
  const value = wordOrNumber(first);
  if (value === undefined || !/^\s+(?:["']|[\w.-]+\s*:)/.test(text.slice(first.length))) return undefined;
  return { value, length: first.length, slip: { at: first.length, message: `a comma is missing after ${first}` } };
}

function nestedKey(text: string): Unquoted | undefined {
  if (!/^[\w.-]+\s*:(?:\s|$)/.test(text)) return undefined;
  const message = `found another key where its value is wanted; nesting is written { ... }, not as in YAML`;
  return { ...whole(text), slip: { at: 0, message } };
}

/** A text that goes on behind what looks like its end. */
function swallowed(text: string): Unquoted | undefined {
  const at = text.search(/[,，{}[\]"]|\s(?:#|\/\/|\/\*)/);
  if (at === -1) return undefined;
  const value = text.slice(0, at).trim();
  const shown = JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}...` : text);
  const repair = value === "" ? "put quotes around it" : `write ${JSON.stringify(value)} in quotes`;
  const message = `a text without quotes goes on to the end of its line, so this one is ${shown}; ${repair}`;
  return { value, length: Math.max(at, 1), slip: { at: 0, message } };
}
