// Pages that repeat what the code says must say the same.
// `npx vitest run test/docs.test.ts -u` writes the generated parts of the pages about configuration.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { answerConfig } from "../src/cli/config.ts";
import { renderProblems } from "../src/cli/config-report.ts";
import { readConfigText } from "../src/config/json.ts";
import type { KeySpec, UnusedKey } from "../src/config/key-kinds.ts";
import { aliases, keys, misspellings } from "../src/config/keys.ts";
import { memoryKinds } from "../src/device/ledger.ts";
import { trafficKinds } from "../src/device/traffic.ts";
import { exitCodes } from "../src/launch/exit-codes.ts";
import { renderHardware } from "../src/report/hardware-tables.ts";
import { renderMarkdownTable } from "../src/report/table.ts";

const page = (name: string): string => readFileSync(new URL(`../docs/${name}.md`, import.meta.url), "utf8");
const rows = Object.entries(keys) as [string, KeySpec][];

/** A page with the part between its two marks replaced. */
function withGenerated(name: string, generated: string): string {
  const [before, rest] = page(name).split("<!-- generated -->\n");
  const after = rest?.split("<!-- end of generated -->")[1];
  if (before === undefined || after === undefined) throw new Error(`docs/${name}.md has lost its marks`);
  return `${before}<!-- generated -->\n\n${generated}\n\n<!-- end of generated -->${after}`;
}

/** Stars of patterns are no emphasis. */
function markdown(headers: readonly string[], cells: readonly string[][]): string {
  const columns = headers.map((header) => ({ header, align: "left" as const }));
  return renderMarkdownTable({ columns, rows: cells.map((row) => row.map((cell) => cell.replaceAll("*", "\\*"))) });
}

const code = (value: unknown): string => `\`${JSON.stringify(value)}\``;

test("the configuration page lists the keys that are acted on", async () => {
  const used = rows.flatMap(([path, spec]) => {
    if (spec.status !== "used") return [];
    const leftOut = spec.leftOut === undefined ? "derived" : code(spec.leftOut);
    return [[`\`${path}\``, spec.type.wanted, leftOut, spec.doc]];
  });
  const table = markdown(["key", "value", "left out", "meaning"], used);
  await expect(withGenerated("configuration", table)).toMatchFileSnapshot("../docs/configuration.md");
});

/** The names in a section that is one row. */
const inside = (spec: { readonly inside?: readonly string[] }): string =>
  spec.inside === undefined ? "" : ` (in it: ${spec.inside.map((name) => `\`${name}\``).join(", ")})`;

/** Values of which nothing is said, but for false and 0 where they are DeepSpeed's word for "off". */
function unsaid({ obeyed, deepspeed }: UnusedKey): string {
  const happens = obeyed.filter((value) => value !== false || deepspeed !== undefined).map(code);
  const both = [
    ...(happens.length > 0 ? [`${happens.join(", ")}: what happens anyway`] : []),
    ...(deepspeed === undefined ? [] : [`${code(deepspeed)}: DeepSpeed's default`]),
  ];
  return both.length === 0 ? "" : ` (${both.join("; ")})`;
}

/** What happens to a key, and why. */
function fate(spec: KeySpec): [what: string, why: string] {
  if (spec.status === "fixed")
    return ["enum" in spec.schema ? `only ${spec.wanted}` : "must be off", spec.why + inside(spec)];
  if (spec.status === "replaced") return ["read under its new name", `write \`${spec.by}\``];
  if (spec.status === "unused")
    return [
      (spec.isMissing ? "not yet" : "no effect") + unsaid(spec),
      spec.why.replace(/^a DeepSpeed key .*?; /, "") + inside(spec),
    ];
  const here = spec.leftOut === undefined ? "derived" : code(spec.leftOut);
  const differs = spec.deepspeed === undefined ? "" : `; left out: ${here}, in DeepSpeed ${code(spec.deepspeed)}`;
  return ["acts", `${spec.doc}${differs}`];
}

test("the migration page says of every key what becomes of it", async () => {
  const sections = new Map<string, string[][]>();
  const fates = rows.map(([path, spec]): [path: string, what: string, why: string] => [path, ...fate(spec)]);
  for (const [old, now] of Object.entries({ ...aliases, ...misspellings }))
    fates.push([old, "another spelling", `of \`${now}\``]);
  for (const [path, ...cells] of fates) {
    const dot = path.indexOf(".");
    const section = dot === -1 ? "Top level" : `\`${path.slice(0, dot)}\``;
    const name = dot === -1 ? path : path.slice(dot + 1);
    sections.set(section, [...(sections.get(section) ?? []), [`\`${name}\``, ...cells]]);
  }
  const tables = [...sections].map(
    ([section, cells]) => `### ${section}\n\n${markdown(["key", "here", "why"], cells)}`,
  );
  const kinds = fates.map(([, what]) => what.replace(/^only .*/, "only some values").replace(/ \(.*/, ""));
  const counts = [...new Set(kinds)].map((kind) => `${kinds.filter((k) => k === kind).length} ${kind}`).join(", ");
  const text = [`${fates.length} names: ${counts}.`, ...tables].join("\n\n");
  await expect(withGenerated("migration", text)).toMatchFileSnapshot("../docs/migration.md");
});

test("the page on offload speaks of every key of it that is acted on", () => {
  const text = page("offload");
  const names = rows.flatMap(([path, { status }]) => {
    const found = /(offload_\w+|aio)\.(\w+)$|^shunya\.(nvme_\w+|disk_\w+|delayed_\w+)$/.exec(path);
    return status === "used" && found ? [found[2] ?? found[3]!] : [];
  });
  expect(names.length).toBeGreaterThan(15);
  for (const name of names) expect(text, name).toContain(name);
});

test("the page of broken files shows what is printed", async () => {
  const text = page("config-errors");
  const parts = text.split(/(?<=```hjson\n)([\s\S]*?)(?=```)/);
  expect(parts.length).toBeGreaterThanOrEqual(21);
  for (let i = 1; i < parts.length; i += 2) {
    const question = { file: "ds.json", overrides: [], ranks: 4, model: undefined };
    const answer = await answerConfig(question, readConfigText(parts[i]!, question.file));
    expect(answer.problems.some(({ level }) => level === "error")).toBe(true);
    parts[i + 1] = parts[i + 1]!.replace(/(?<=```text\n)[\s\S]*?(?=```)/, () => `${renderProblems(answer)}\n`);
  }
  await expect(parts.join("")).toMatchFileSnapshot("../docs/config-errors.md");
});

test("the log page names every kind of memory and traffic", () => {
  const text = page("log-format") + page("glossary");
  expect([...memoryKinds, ...trafficKinds].filter((kind) => !text.includes(kind))).toEqual([]);
});

test("the exit code page lists every code", () => {
  const listed = [...page("exit-codes").matchAll(/^\| (\d+) +\|/gm)].map((match) => Number(match[1]));
  expect(listed).toEqual(Object.values(exitCodes));
});

test("the hardware page lists the presets", async () => {
  await expect(withGenerated("hardware", renderHardware())).toMatchFileSnapshot("../docs/hardware.md");
});
