// One run at a time for an output folder, also where many begin at once beside the lock of one that is gone.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { OutputLock } from "../../src/cli/output-lock.ts";
import { root, temporaryFolder } from "./command.ts";

const folder = temporaryFolder();
const lockOf = (name: string): string => join(folder, `${name}.lock`);
const write = (name: string, holder: object | string): void =>
  writeFileSync(lockOf(name), typeof holder === "string" ? holder : JSON.stringify(holder));

/** No process has it: the largest number that Linux gives is 2^22. */
const gone = { pid: 2 ** 22 + 1, host: hostname() };

test("a lock names its process, and goes with it", () => {
  {
    using _lock = new OutputLock(join(folder, "a"));
    expect(JSON.parse(readFileSync(lockOf("a"), "utf8"))).toEqual({ pid: process.pid, host: hostname() });
  }
  expect(readdirSync(folder)).toEqual([]);
});

test.each([
  ["a process that runs", { pid: process.ppid, host: hostname() }],
  ["another machine", { pid: 1, host: `not-${hostname()}` }],
])("%s holds it", (_, holder) => {
  write("held", holder);
  expect(() => new OutputLock(join(folder, "held"))).toThrow(/is being written by process \d+ on/);
  expect(JSON.parse(readFileSync(lockOf("held"), "utf8"))).toEqual(holder);
});

test("what a process left that is gone, or a full disk, is taken over", () => {
  for (const left of [gone, ""]) {
    write("left", left);
    using _lock = new OutputLock(join(folder, "left"));
    expect(JSON.parse(readFileSync(lockOf("left"), "utf8"))).toMatchObject({ pid: process.pid });
  }
  expect(existsSync(lockOf("left"))).toBe(false);
});

test("what cannot be a lock is said, and what somebody took over stays", () => {
  mkdirSync(lockOf("folder"));
  expect(() => new OutputLock(join(folder, "folder"))).toThrow(/its lock file cannot be written: .*EISDIR/);
  const other = { pid: process.ppid, host: hostname() };
  {
    using _lock = new OutputLock(join(folder, "taken"));
    write("taken", other);
  }
  expect(JSON.parse(readFileSync(lockOf("taken"), "utf8"))).toEqual(other);
});

test("of many that begin at once one gets it", async () => {
  write("race", gone);
  const source = pathToFileURL(join(root, "src/cli/output-lock.ts")).href;
  const script = `
    const { OutputLock } = await import(${JSON.stringify(source)});
    process.stdin.once("data", () => {
      try { new OutputLock(${JSON.stringify(join(folder, "race"))}); console.log("got it"); } catch { console.log("refused"); }
      process.stdin.once("data", () => process.exit());
    });
    console.log("ready");`;
  const children = Array.from({ length: 6 }, () =>
    spawn(process.execPath, ["--import", "tsx", "--input-type=module", "--eval", script], { cwd: root }),
  );
  const outputs = children.map(({ stdout }) => text(stdout));
  await Promise.all(children.map(({ stdout }) => new Promise((resolve) => stdout.once("data", resolve))));
  const answers = children.map(({ stdout }) => new Promise((resolve) => stdout.once("data", resolve)));
  for (const { stdin } of children) stdin.write("go\n");
  await Promise.all(answers);
  for (const { stdin } of children) stdin.end("end\n");
  expect((await Promise.all(outputs)).filter((output) => output.includes("got it"))).toHaveLength(1);
});
