// Pages that repeat what the code says must say the same.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { KeySpec } from "../src/config/key-kinds.ts";
import { keys } from "../src/config/keys.ts";
import { memoryKinds } from "../src/device/ledger.ts";
import { trafficKinds } from "../src/device/traffic.ts";
import { exitCodes } from "../src/launch/exit-codes.ts";
import { renderMarkdownTable } from "../src/report/table.ts";

const page = (name: string): string => readFileSync(new URL(`../docs/${name}.md`, import.meta.url), "utf8");
const rows = Object.entries(keys) as [string, KeySpec][];

test("the configuration page lists the keys that are acted on", () => {
  const used = rows.flatMap(([path, spec]) => {
    if (spec.status !== "used") return [];
    const leftOut = spec.leftOut === undefined ? "derived" : `\`${JSON.stringify(spec.leftOut)}\``;
    return [[`\`${path}\``, spec.type.wanted, leftOut, spec.doc]];
  });
  const headers = ["key", "value", "left out", "meaning"];
  const table = renderMarkdownTable({ columns: headers.map((header) => ({ header, align: "left" })), rows: used });
  expect(page("configuration")).toContain(table);
});

test("the log page names every kind of memory and traffic", () => {
  const text = page("log-format") + page("glossary");
  expect([...memoryKinds, ...trafficKinds].filter((kind) => !text.includes(kind))).toEqual([]);
});

test("the exit code page lists every code", () => {
  const listed = [...page("exit-codes").matchAll(/^\| (\d+) +\|/gm)].map((match) => Number(match[1]));
  expect(listed).toEqual(Object.values(exitCodes));
});
