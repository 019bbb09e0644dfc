/** The answer of `shunya config` as a table for people and as JSON for programs. */
import { Places } from "../config/places.ts";
import type { ConfigProblem } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";
import { formatCount } from "../report/numbers.ts";
import { renderTable } from "../report/table.ts";
import { terminalWidth, wrap } from "../report/wrap.ts";
import type { ConfigAnswer } from "./config.ts";
import { runLength } from "./config-details.ts";

/** One JSON document: the values by name, then "offload", "derived" by name, "sources" by path, and "problems". */
export function renderConfigJson({ values, draft, derived, offload, problems }: ConfigAnswer): string {
  const document = {
    ...Object.fromEntries(values.map(({ name, value }) => [name, value])),
    offload,
    derived,
    sources: Object.fromEntries(draft.sources ?? []),
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

/** @param columns the terminal's width */
export function renderConfigAnswer(answer: ConfigAnswer, columns: number = terminalWidth): string {
  const { file, ranks } = answer.question;
  const isResolved = answer.values.some(({ value }) => value !== null);
  const parts = [
    ...(isResolved ? [`${printable(file)} on ${ranks} rank${ranks === 1 ? "" : "s"}:`, renderValues(answer)] : []),
    renderProblems(answer, columns),
  ];
  return `${parts.join("\n\n")}\n`;
}

function renderValues(answer: ConfigAnswer): string {
  const rows = answer.values.flatMap((value) => valueRows(value.name, value.value, value.paths, answer));
  return renderTable({
    columns: ["value", "", "from"].map((header) => ({ header, align: "left" })),
    rows,
  });
}

/** Objects as one row for each of their values. */
function valueRows(name: string, value: unknown, paths: readonly string[], answer: ConfigAnswer): string[][] {
  const origin = originOf(paths, answer);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    const { type, kind, ...rest } = value as Record<string, unknown>;
    const inner = Object.entries(rest).flatMap(([key, item]) =>
      valueRows(`  ${key}`, item, [innerPath(paths[0]!, key, type)], answer),
    );
    return [[name, String(type ?? kind ?? ""), origin], ...inner];
  }
  if (Array.isArray(value) && value.length > 0) {
    const shown = value.slice(0, mostItems).map((item, i) => [`  ${i + 1}`, clipped(JSON.stringify(item)), ""]);
    const more = value.length - shown.length;
    return [[name, "", origin], ...shown, ...(more > 0 ? [["", `and ${more} more`, ""]] : [])];
  }
  return [[name, shownScalar(value), origin]];
}

export function shownScalar(value: unknown): string {
  if (value === Number.POSITIVE_INFINITY) return runLength;
  if (value === null || value === undefined || Array.isArray(value)) return "-";
  if (typeof value === "number" && Number.isInteger(value) && value >= 10_000) return formatCount(value);
  return clipped(String(value));
}

/** Long lists and texts are in the JSON form. */
const mostItems = 20;
const mostCharacters = 200;
const clipped = (text: string): string =>
  printable(text.length > mostCharacters ? `${text.slice(0, mostCharacters)}...` : text);

/** Names of keys that are not the value's name in DeepSpeed's way of writing. */
const keyNames: Readonly<Record<string, string>> = {
  learningRate: "lr",
  beta1: "betas",
  beta2: "betas",
  epsilon: "eps",
  learningRateDecay: "lr_decay",
  initialAccumulator: "initial_accumulator_value",
  initialScale: "initial_scale_power",
  window: "loss_scale_window",
  minScale: "min_loss_scale",
  scale: "loss_scale",
  warmupSteps: "warmup_num_steps",
  totalSteps: "total_num_steps",
};

const warmupNames = { minLearningRate: "warmup_min_lr", maxLearningRate: "warmup_max_lr" };

/** The same of values that each schedule calls otherwise. */
const keyNamesOf: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  WarmupLR: warmupNames,
  WarmupDecayLR: warmupNames,
  WarmupCosineLR: { minRatio: "warmup_min_ratio" },
  OneCycle: {
    minLearningRate: "cycle_min_lr",
    maxLearningRate: "cycle_max_lr",
    decayRate: "decay_lr_rate",
    firstStepSize: "cycle_first_step_size",
    secondStepSize: "cycle_second_step_size",
    momentum: "cycle_momentum",
  },
  LRRangeTest: {
    minLearningRate: "lr_range_test_min_lr",
    stepSize: "lr_range_test_step_size",
    stepRate: "lr_range_test_step_rate",
    staircase: "lr_range_test_staircase",
  },
};

/** The path of a key beside the one at `path`, or among its parameters. @param type of what it is a parameter of */
export function innerPath(path: string, name: string, type: unknown): string {
  const section = path.slice(0, path.lastIndexOf("."));
  const own = keyNamesOf[String(type)]?.[name] ?? keyNames[name];
  const key = own ?? name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return `${path.endsWith(".type") ? `${section}.params` : section}.${key}`;
}

/** Where the first of the value's keys stands that was given; else how the value came about. */
export function originOf(paths: readonly string[], { draft, question }: ConfigAnswer): string {
  const source = (path: string) => draft.sources?.get(path) ?? "default";
  const path = paths.find((p) => source(p) === "file" || source(p) === "flag") ?? paths[0]!;
  const filled = draft.autos?.find((auto) => auto.path === path);
  if (filled !== undefined) return `"auto": ${filled.why}`;
  const line = draft.places?.get(path)?.line;
  const from = source(path);
  if (from === "file") return line === undefined ? "file" : `line ${line}`;
  const isSize = path.startsWith("zero_optimization.") && path !== "zero_optimization.overlap_comm";
  if (from === "derived" && isSize) return `the model${question.model === undefined ? " (give --model)" : ""}`;
  return from === "derived" ? "other keys" : from;
}

export function renderProblems({ question, reading, problems }: ConfigAnswer, columns: number = terminalWidth): string {
  if (problems.length === 0) return "No problems.";
  const places = new Places(reading.text);
  const count = (level: ConfigProblem["level"]): string => {
    const found = problems.filter((problem) => problem.level === level).length;
    return `${found} ${level}${found === 1 ? "" : "s"}`;
  };
  const shown = problems.map((problem) => {
    const { line, column, level, path, message } = problem;
    const at = line === undefined ? "" : `:${line}${column === undefined ? "" : `:${column}`}`;
    const place = `${printable(question.file)}${at}: ${level}: ${path}:`;
    const isShort = place.length + 1 + message.length <= columns;
    const head = isShort ? `${place} ${message}` : `${place}\n    ${wrap(message, { indent: 4, width: columns })}`;
    if (line === undefined || column === undefined) return head;
    return `${head}\n${places.excerptAt(line, column).replace(/^/gm, "  | ")}`;
  });
  return [...shown, `${count("error")}, ${count("warning")}.`].join("\n\n");
}
