/** The `shunya` command as a user runs it: a process of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach } from "vitest";
import { terminalWidth } from "../../src/report/wrap.ts";

export const root = fileURLToPath(new URL("../..", import.meta.url));
export const tinyModel = join(root, "test/oracles/gpt2-tiny/model");
export const tinyTokens = join(root, "test/oracles/gpt2-tiny/tokens.bin");
/** A training job that takes a second, but for --data and --ranks. */
export const tinyTraining = ["train", "--model", tinyModel, "--seq-length", "16", "--threads", "1"];

export interface Ended {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  readonly child: ChildProcess;
  readonly output: { stdout: string; stderr: string };
  readonly ended: Promise<Ended>;
}

const running = new Set<ChildProcess>();
afterEach(() => {
  for (const child of running) child.kill("SIGKILL");
});

/**
 * `npm test` has compiled the sources and runs that, as an installed package does; vitest alone runs the sources as they are, as a
 * checkout does.
 */
const command = process.env.SHUNYA_TEST_COMPILED === "1" ? "test/cli/compiled.mjs" : "bin/shunya.js";

/** Starts the command with `args` in a process group of its own, as a shell does. */
export function start(args: readonly string[], cwd = root): Running {
  const child = spawn(process.execPath, [join(root, command), ...args], {
    cwd,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.add(child);
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const)
    child[name].setEncoding("utf8").on("data", (chunk: string) => {
      output[name] += chunk;
    });
  const ended = new Promise<Ended>((resolve) => {
    child.once("close", (exitCode) => {
      running.delete(child);
      resolve({ exitCode, ...output });
    });
  });
  return { child, output, ended };
}

export const run = (args: readonly string[], cwd?: string): Promise<Ended> => start(args, cwd).ended;

/** An empty folder that is gone after the test file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "shunya-cli-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes files under `folder`, with the folders that their names speak of. Objects become JSON. @returns `folder` */
export function writeFiles(folder: string, files: Readonly<Record<string, string | Uint8Array | object>>): string {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(folder, name, ".."), { recursive: true });
    const isPlain = typeof content === "string" || content instanceof Uint8Array;
    writeFileSync(join(folder, name), isPlain ? content : JSON.stringify(content));
  }
  return folder;
}

/** Lines that are too long; progress lines of a log and words that nobody can break (paths) aside. */
export const tooWide = (text: string): string[] =>
  text.split("\n").filter((line) => [...line].length > terminalWidth && !/^step \d+\/|\S{60}/.test(line));
