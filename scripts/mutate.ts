// Shows that the laws can fail: plants one fault after the other in a copy of the sources under build/, runs the law that must
// catch it, and fails if one survives. The working tree is not touched, save for the table in docs/laws.md at the end.
// Arguments: words; only faults whose name holds one of them are planted, and the table is left alone.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { renderMarkdownTable } from "../src/report/table.ts";
import { type Fault, faults } from "./faults.ts";
import type { Law } from "./laws.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const copy = join(root, "build", "mutants", "tree");

interface Outcome {
  readonly passed: readonly string[];
  readonly failed: readonly string[];
  /** The first line of what the first failed test said. */
  readonly said: string;
}

function makeCopy(): void {
  rmSync(copy, { recursive: true, force: true });
  mkdirSync(join(copy, "build"), { recursive: true });
  for (const path of ["src", "test", "package.json", "tsconfig.json", "tsconfig.test.json", "vitest.config.ts"])
    cpSync(join(root, path), join(copy, path), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
  symlinkSync(join(root, "build", "shunya.node"), join(copy, "build", "shunya.node"));
}

/** Runs a law's tests in the copy. */
function runLaw(law: Law): Outcome {
  const report = join(copy, "report.json");
  rmSync(report, { force: true });
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  const chosen = law.tests === "" ? [] : ["--testNamePattern", law.tests];
  const run = spawnSync(
    process.execPath,
    [vitest, "run", "--root", copy, law.file, ...chosen, "--reporter", "json", "--outputFile", report],
    { cwd: copy, encoding: "utf8", timeout: 120_000, maxBuffer: 1 << 26 },
  );
  try {
    const { testResults } = JSON.parse(readFileSync(report, "utf8"));
    const tests = testResults.flatMap((f: { assertionResults: unknown[] }) => f.assertionResults) as {
      status: string;
      title: string;
      failureMessages: string[];
    }[];
    const titled = (status: string): string[] => tests.filter((t) => t.status === status).map((t) => t.title);
    const message = tests.find((t) => t.status === "failed")?.failureMessages[0] ?? "";
    return { passed: titled("passed"), failed: titled("failed"), said: message.split("\n")[0]!.slice(0, 160) };
  } catch {
    throw new Error(`${law.file} left no report:\n${run.stdout}\n${run.stderr}`);
  }
}

/** @returns undefined where the fault survives */
function plant(fault: Fault): Outcome | undefined {
  const path = join(copy, fault.file);
  const source = readFileSync(path, "utf8");
  const found = source.split(fault.find).length - 1;
  if (found !== 1)
    throw new Error(`"${fault.name}": its text occurs ${found} times in ${fault.file}; mend it in scripts/faults.ts`);
  writeFileSync(
    path,
    source.replace(fault.find, () => fault.replace),
  );
  try {
    const outcome = runLaw(fault.law);
    return outcome.failed.length > 0 ? outcome : undefined;
  } finally {
    writeFileSync(path, source);
  }
}

/** Every law that a chosen fault needs must be green before anything is planted. */
function checkUnharmed(chosen: readonly Fault[]): void {
  for (const law of new Set(chosen.map((f) => f.law))) {
    const { passed, failed } = runLaw(law);
    console.log(`${failed.length === 0 && passed.length > 0 ? "green" : "RED  "}  ${law.name}: ${passed.length} tests`);
    if (failed.length > 0 || passed.length === 0)
      throw new Error(`${law.file}, without any fault: ${failed.length} failed (${failed.join("; ")})`);
  }
}

function writeTable(): void {
  const rows = [...new Set(faults.map((f) => f.law))].map((law) => {
    const caught = faults.filter((f) => f.law === law).map((f) => f.name);
    return [law.name, `\`${law.file}\``, caught.join("; ")];
  });
  const columns = ["law", "test", "faults that turn it red"].map((header) => ({ header, align: "left" as const }));
  const table = renderMarkdownTable({ columns, rows });
  const path = join(root, "docs", "laws.md");
  const [before, rest] = readFileSync(path, "utf8").split("<!-- faults -->\n") as [string, string];
  writeFileSync(path, `${before}<!-- faults -->\n\n${table}\n\n${rest.slice(rest.indexOf("<!-- end -->"))}`);
}

function main(words: readonly string[]): void {
  const chosen = faults.filter((f) => words.length === 0 || words.some((word) => f.name.includes(word)));
  makeCopy();
  checkUnharmed(chosen);
  const survivors: string[] = [];
  for (const fault of chosen) {
    const started = performance.now();
    const outcome = plant(fault);
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    if (outcome)
      console.log(`caught    ${fault.name} (${seconds} s)\n          by ${outcome.failed.join("; ")}: ${outcome.said}`);
    else console.log(`SURVIVES  ${fault.name} (${seconds} s): ${fault.law.file} stays green`);
    if (!outcome) survivors.push(fault.name);
  }
  rmSync(copy, { recursive: true, force: true });
  console.log(`${chosen.length - survivors.length} of ${chosen.length} faults caught`);
  if (survivors.length > 0) process.exitCode = 1;
  else if (words.length === 0) writeTable();
}

main(process.argv.slice(2));
