// The launcher as a user meets it: a process of its own with real ranks and real shared memory.
import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterEach, expect, test } from "vitest";
import { UsageError } from "../../src/errors/errors.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { type LaunchOptions, launchRanks } from "../../src/launch/launch.ts";
import { createLogger } from "../../src/log/logger.ts";
import { isRunning, until } from "./processes.ts";

const tsx = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
const fixture = (name: string): string => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url));

interface Launcher {
  readonly child: ChildProcess;
  readonly output: { stdout: string; stderr: string };
  readonly exit: Promise<number | null>;
  /** Resolves once standard output matches as often. */
  seen(pattern: RegExp, times: number): Promise<void>;
  /** Process numbers that ranks have printed. */
  pids(): number[];
}

const started: ChildProcess[] = [];
afterEach(() => {
  for (const child of started.splice(0)) child.kill("SIGKILL");
});

function startLauncher(ranks: number, ...args: string[]): Launcher {
  const command = ["--import", tsx, fixture("launcher.ts"), String(ranks), ...args];
  // A process group of its own, as a shell gives every job.
  const child = spawn(process.execPath, command, { detached: true });
  started.push(child);
  const output = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk) => {
    output.stdout += chunk;
  });
  child.stderr.on("data", (chunk) => {
    output.stderr += chunk;
  });
  const exit = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)));
  return {
    child,
    output,
    exit,
    seen: async (pattern, times) => {
      const isSeen = (): boolean => (output.stdout.match(pattern) ?? []).length >= times;
      await until(() => isSeen() || child.exitCode !== null, 20_000);
      if (!isSeen()) throw new Error(`the launcher ended early: ${output.stderr}`);
    },
    pids: () => [...output.stdout.matchAll(/"pid":(\d+)/g)].map((match) => Number(match[1])),
  };
}

test("ranks die with a launcher that is killed", async () => {
  const launcher = startLauncher(3, "wait");
  await launcher.seen(/"pid"/g, 3);
  launcher.child.kill("SIGKILL");
  await until(() => !launcher.pids().some(isRunning), 2000);
});

/** A terminal sends Ctrl-C to the launcher and its ranks alike. */
function pressCtrlC(launcher: Launcher): void {
  process.kill(-launcher.child.pid!, "SIGINT");
}

test("the first Ctrl-C stops the ranks cleanly", async () => {
  const launcher = startLauncher(2, "stop");
  await launcher.seen(/"pid"/g, 2);
  pressCtrlC(launcher);
  expect(await launcher.exit).toBe(exitCodes.interrupted);
  expect(launcher.output.stdout.match(/"stopped":true/g)).toHaveLength(2);
  expect(launcher.output.stderr).toBe("stopping after this step; once more ends the ranks at once\n");
});

test("the second Ctrl-C ends ranks that do not listen", async () => {
  const launcher = startLauncher(2, "wait");
  await launcher.seen(/"pid"/g, 2);
  pressCtrlC(launcher);
  await new Promise((resolve) => setTimeout(resolve, 500));
  pressCtrlC(launcher);
  expect(await launcher.exit).toBe(exitCodes.interrupted);
  expect(launcher.pids().some(isRunning)).toBe(false);
});

test("only rank 0 prints", async () => {
  const launcher = startLauncher(2, "print");
  expect(await launcher.exit).toBe(exitCodes.ok);
  expect(launcher.output).toEqual({ stdout: "out of rank 0\n", stderr: "err of rank 0\n" });
});

test("the first error is shown once, and fixes the exit code", async () => {
  const launcher = startLauncher(3, "throw", "1");
  expect(await launcher.exit).toBe(exitCodes.numerical);
  expect(launcher.output.stderr).toBe("error: rank 1: the loss is NaN at step 3\n");
});

const logger = createLogger({ write: () => {} });

function options(ranks: number, ...args: string[]): LaunchOptions {
  return { ranks, entry: fixture("rank.ts"), args, arenaBytes: 2 ** 20, logger };
}

test("ranks see each other's memory", async () => {
  const read: unknown[] = [];
  let written = 0;
  const launch = launchRanks({
    ...options(3, "share"),
    onMessage: (_rank, payload) => {
      if (payload !== "written") read.push(payload);
      else if (++written === 3) for (let rank = 0; rank < 3; rank++) launch.send(rank, "read");
    },
  });
  expect(await launch.outcome).toEqual({ exitCode: exitCodes.ok, failure: undefined });
  expect(read).toEqual([
    [10, 11, 12],
    [10, 11, 12],
    [10, 11, 12],
  ]);
});

test("ranks that wait in a collective learn of a lost rank at once", async () => {
  const told: unknown[] = [];
  const launch = launchRanks({ ...options(3, "collective", "1"), onMessage: (_rank, payload) => told.push(payload) });
  const text = expect.stringMatching(/^rank 1: was ended by SIGKILL/);
  expect(await launch.outcome).toMatchObject({ exitCode: exitCodes.lostRank, failure: { text } });
  const expected = { code: "ABORTED", rank: 1, exitCode: exitCodes.lostRank };
  expect(told).toEqual([expect.objectContaining(expected), expect.objectContaining(expected)]);
});

test("a rank that ends early without an error is lost to those who wait for it", async () => {
  const told: unknown[] = [];
  const launch = launchRanks({ ...options(3, "leave", "1"), onMessage: (_rank, payload) => told.push(payload) });
  expect(await launch.outcome).toMatchObject({ exitCode: exitCodes.lostRank });
  expect(told).toContainEqual(expect.objectContaining({ code: "ABORTED", rank: 1, exitCode: 0 }));
});

test("an abort signal stops the ranks", async () => {
  const stop = new AbortController();
  const launch = launchRanks({ ...options(2, "stop"), signal: stop.signal, onMessage: () => stop.abort() });
  expect((await launch.outcome).exitCode).toBe(exitCodes.interrupted);
});

test("a launch leaves no listeners and no descriptors behind", async () => {
  const held = (): number[] => [
    ...["SIGINT", "SIGTERM", "exit"].map((name) => process.listenerCount(name)),
    readdirSync("/dev/fd").length,
  ];
  await launchRanks(options(1, "environment")).outcome;
  const before = held();
  await launchRanks(options(2, "environment")).outcome;
  expect(held()).toEqual(before);
});

test.each([0, -1, 1.5, Number.NaN])("%d ranks are refused", (ranks) => {
  expect(() => launchRanks(options(ranks, "wait"))).toThrow(UsageError);
});
