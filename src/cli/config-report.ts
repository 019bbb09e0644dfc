/** The answer of `shunya config` as a table for people and as JSON for programs. */
import { type ConfigNode, joinPath } from "../config/json.ts";
import { aliases } from "../config/keys.ts";
import { Places } from "../config/places.ts";
import type { ConfigProblem } from "../errors/errors.ts";
import { formatCount } from "../report/numbers.ts";
import { renderTable } from "../report/table.ts";
import type { ConfigAnswer, ConfigValue } from "./config.ts";

/** One JSON document: the values by name, then "sources" by path and "problems". */
export function renderConfigJson({ values, sources, problems }: ConfigAnswer): string {
  const document = {
    ...Object.fromEntries(values.map(({ name, value }) => [name, value])),
    sources: Object.fromEntries(sources),
    problems: problems.map(({ path, line = null, column = null, level, message }) => ({
      path,
      line,
      column,
      level,
      message,
    })),
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

export function renderConfigAnswer(answer: ConfigAnswer): string {
  const { file, ranks } = answer.question;
  const isResolved = answer.values.some(({ value }) => value !== null);
  const parts = [
    ...(isResolved ? [`${file} on ${ranks} rank${ranks === 1 ? "" : "s"}:`, renderValues(answer)] : []),
    renderProblems(answer),
  ];
  return `${parts.join("\n\n")}\n`;
}

function renderValues(answer: ConfigAnswer): string {
  const lines = answer.reading.file === undefined ? new Map<string, number>() : linesByPath(answer.reading.file.root);
  const rows = answer.values.flatMap((value) => {
    const origin = originOf(value, answer, lines);
    return valueRows(value.name, value.value).map(([name, shown], i) => [name, shown, i === 0 ? origin : ""]);
  });
  return renderTable({
    columns: ["value", "", "from"].map((header) => ({ header, align: "left" })),
    rows,
  });
}

/** Objects as one row for each of their values. */
function valueRows(name: string, value: unknown): [name: string, shown: string][] {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    const { type, kind, ...rest } = value as Record<string, unknown>;
    const inner = Object.entries(rest).flatMap(([key, item]) => valueRows(`  ${key}`, item));
    return [[name, String(type ?? kind ?? "")], ...inner];
  }
  if (Array.isArray(value) && value.length > 0) {
    return [[name, ""], ...value.map((item, i): [string, string] => [`  ${i + 1}`, JSON.stringify(item)])];
  }
  return [[name, shownScalar(value)]];
}

function shownScalar(value: unknown): string {
  if (value === null || value === undefined || Array.isArray(value)) return "-";
  if (typeof value === "number" && Number.isInteger(value) && value >= 10_000) return formatCount(value);
  return String(value);
}

/** Where the first of the value's keys stands that was given; else how the value came about. */
function originOf({ paths, value }: ConfigValue, answer: ConfigAnswer, lines: ReadonlyMap<string, number>): string {
  const source = (path: string) => answer.sources.get(path) ?? "default";
  const path = paths.find((p) => source(p) === "file" || source(p) === "flag") ?? paths[0]!;
  const line = lines.get(path);
  const from = source(path);
  if (from === "file") return line === undefined ? "file" : `line ${line}`;
  if (from === "model" || (from === "derived" && typeof value === "number" && path.startsWith("zero_optimization.")))
    return `the model ${answer.question.model ?? ""}`.trimEnd();
  if (from === "derived") return value === null ? "the model (give --model to see it)" : "other keys";
  return from;
}

/** Lines of all keys by the path that the table of keys has, whichever of DeepSpeed's spellings is written. */
function linesByPath(root: ConfigNode): Map<string, number> {
  const lines = new Map<string, number>();
  const canonical = (path: string): string => {
    for (const [alias, name] of Object.entries(aliases)) {
      if (path === alias || path.startsWith(`${alias}.`)) return name + path.slice(alias.length);
    }
    return path;
  };
  const walk = (node: ConfigNode, parent: string): void => {
    if (node.kind !== "object") return;
    for (const { key, line, value } of node.members) {
      const path = joinPath(parent, key);
      if (line !== undefined) lines.set(canonical(path), line);
      walk(value, path);
    }
  };
  walk(root, "");
  return lines;
}

function renderProblems({ question, reading, problems }: ConfigAnswer): string {
  if (problems.length === 0) return "No problems.";
  const places = new Places(reading.text);
  const count = (level: ConfigProblem["level"]): string => {
    const found = problems.filter((problem) => problem.level === level).length;
    return `${found} ${level}${found === 1 ? "" : "s"}`;
  };
  const shown = problems.map((problem) => {
    const { line, column, level, path, message } = problem;
    const at = line === undefined ? "" : `:${line}${column === undefined ? "" : `:${column}`}`;
    const head = `${question.file}${at}: ${level}: ${path}: ${message}`;
    if (line === undefined || column === undefined) return head;
    return `${head}\n${places.excerptAt(line, column).replace(/^/gm, "  | ")}`;
  });
  return [...shown, `${count("error")}, ${count("warning")}.`].join("\n\n");
}
