// Supervision needs no native core: here the ranks inherit plain files in place of shared memory.
import { closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import type { RankFailure } from "../../src/launch/failure.ts";
import { type LaunchOutcome, RankSupervisor } from "../../src/launch/supervise.ts";
import { isRunning } from "./processes.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "shunya-launch-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

interface Run {
  readonly supervisor: RankSupervisor;
  readonly data: { rank: number; payload: Record<string, unknown> }[];
  readonly failures: RankFailure[];
  readonly lost: number[];
  /** Resolves when every rank has sent something. */
  readonly heard: Promise<void>;
  /** How often a rank passed a request on. */
  readonly asked: () => number;
}

function start(ranks: number, ...args: string[]): Run {
  const files = Array.from({ length: ranks + 1 }, (_, i) => openSync(join(folder, `memory${i}`), "w+"));
  const data: Run["data"] = [];
  const failures: RankFailure[] = [];
  const lost: number[] = [];
  let asked = 0;
  let allHeard = (): void => {};
  const heard = new Promise<void>((resolve) => {
    allHeard = resolve;
  });
  const supervisor = new RankSupervisor(
    {
      ranks,
      entry: fileURLToPath(new URL("fixtures/rank.ts", import.meta.url)),
      args,
      env: { GREETING: "hello" },
      descriptors: { control: files[0]!, arenas: files.slice(1) },
      arenaBytes: 4096,
    },
    {
      onData: (rank, payload) => {
        data.push({ rank, payload: payload as Record<string, unknown> });
        if (new Set(data.map((d) => d.rank)).size === ranks) allHeard();
      },
      onAsked: () => {
        asked++;
        supervisor.stop();
      },
      onFailure: (failure) => failures.push(failure),
      onLost: (rank) => lost.push(rank),
    },
  );
  for (const file of files) closeSync(file);
  return { supervisor, data, failures, lost, heard, asked: () => asked };
}

/** Far from the 30 s that a test may take, and generous to a machine that is busy with other things. */
const soonMs = 8000;

async function soon(outcome: Promise<LaunchOutcome>): Promise<LaunchOutcome> {
  const began = performance.now();
  const result = await outcome;
  expect(performance.now() - began).toBeLessThan(soonMs);
  return result;
}

test("ranks find PyTorch's names and their descriptors in the environment", async () => {
  const run = start(2, "environment");
  expect(await run.supervisor.outcome).toEqual({ exitCode: exitCodes.ok, failure: undefined });
  const told = run.data.sort((a, b) => a.rank - b.rank).map((d) => d.payload);
  expect(told.map((t) => t.rank)).toEqual([0, 1]);
  expect(told[1]).toMatchObject({
    worldSize: 2,
    localRank: 1,
    arenaBytes: 4096,
    descriptors: { control: 4, arenas: [5, 6] },
    env: {
      RANK: "1",
      WORLD_SIZE: "2",
      LOCAL_RANK: "1",
      LOCAL_WORLD_SIZE: "2",
      MASTER_ADDR: "127.0.0.1",
      MASTER_PORT: expect.stringMatching(/^\d+$/),
      GREETING: "hello",
    },
  });
});

test("launcher and ranks exchange data, typed arrays included", async () => {
  const run = start(1, "echo");
  run.supervisor.send(0, { type: "data", payload: Float32Array.of(1, 2) });
  expect((await run.supervisor.outcome).exitCode).toBe(exitCodes.ok);
  expect(run.data).toEqual([{ rank: 0, payload: { rank: 0, heard: Float32Array.of(1, 2) } }]);
});

test("a rank that throws stops the others, and its error alone is told", async () => {
  const run = start(3, "throw", "2");
  const outcome = await run.supervisor.outcome;
  expect(outcome.exitCode).toBe(exitCodes.numerical);
  expect(run.failures.map((f) => f.text)).toEqual(["rank 2: the loss is NaN at step 3"]);
  expect(run.lost).toEqual([2]);
});

test("an error that is not Shunya's keeps its stack", async () => {
  const outcome = await start(2, "bug", "0").supervisor.outcome;
  expect(outcome.exitCode).toBe(exitCodes.internal);
  expect(outcome.failure?.text).toMatch(/^rank 0: TypeError: undefined is not a tensor\n\s+at .*rank\.ts/);
});

test("a rank that exits early is named with its code and its last output", async () => {
  const run = start(2, "exit", "1");
  const outcome = await soon(run.supervisor.outcome);
  expect(outcome.exitCode).toBe(exitCodes.lostRank);
  expect(outcome.failure?.text).toBe(
    "rank 1: exited with code 7 before it was done\nIts last output was:\nrank 1 says goodbye",
  );
  expect(run.supervisor.pids.map(isRunning)).toEqual([false, false]);
});

test("a rank that does not end is killed", async () => {
  const run = start(2, "deaf", "1");
  expect((await soon(run.supervisor.outcome)).exitCode).toBe(exitCodes.lostRank);
  expect(run.supervisor.pids.map(isRunning)).toEqual([false, false]);
});

test("a rank that is killed is named with the signal and the likely cause", async () => {
  const run = start(3, "wait");
  await run.heard;
  process.kill(run.supervisor.pids[1]!, "SIGKILL");
  const outcome = await soon(run.supervisor.outcome);
  expect(outcome.exitCode).toBe(exitCodes.lostRank);
  expect(outcome.failure?.text).toMatch(/^rank 1: was ended by SIGKILL; .*out-of-memory killer/);
});

test("a stop message ends the ranks cleanly", async () => {
  const run = start(2, "stop");
  await run.heard;
  run.supervisor.stop();
  expect(await soon(run.supervisor.outcome)).toEqual({ exitCode: exitCodes.interrupted, failure: undefined });
  expect(run.data.filter((d) => d.payload.stopped)).toHaveLength(2);
});

test("a rank that gets SIGTERM asks for a stop of all, and does not end of it", async () => {
  const run = start(2, "stop");
  await run.heard;
  process.kill(run.supervisor.pids[1]!, "SIGTERM");
  expect(await soon(run.supervisor.outcome)).toEqual({ exitCode: exitCodes.interrupted, failure: undefined });
  expect(run.asked()).toBe(1);
  expect(run.data.filter((d) => d.payload.stopped)).toHaveLength(2);
});

test("ranks that wait for one that stopped first are told, and their complaint is an echo", async () => {
  const run = start(2, "interrupt", "1");
  await run.heard;
  run.supervisor.stop();
  await expect.poll(() => run.lost, { timeout: 5000 }).toEqual([1]);
  run.supervisor.send(0, { type: "data", payload: "rank 1 is gone" });
  expect(await soon(run.supervisor.outcome)).toEqual({ exitCode: exitCodes.interrupted, failure: undefined });
});

test("a rank that crashes while stopping is still a failure, and the others do not wait for it", async () => {
  const run = start(2, "crashOnStop", "1");
  await run.heard;
  run.supervisor.stop();
  const outcome = await soon(run.supervisor.outcome);
  expect(outcome).toMatchObject({ exitCode: exitCodes.lostRank, failure: { rank: 1 } });
});

test("kill ends ranks that do not listen", async () => {
  const run = start(2, "wait");
  await run.heard;
  run.supervisor.kill();
  expect((await soon(run.supervisor.outcome)).exitCode).toBe(exitCodes.interrupted);
});

test("an entry that does not exist is an error of the rank and not a hang", async () => {
  const supervisor = new RankSupervisor(
    {
      ranks: 1,
      entry: join(folder, "missing.ts"),
      args: [],
      env: {},
      descriptors: { control: 2, arenas: [2] },
      arenaBytes: 0,
    },
    { onData: () => {}, onAsked: () => {}, onFailure: () => {}, onLost: () => {} },
  );
  expect((await soon(supervisor.outcome)).failure?.text).toMatch(/missing\.ts/);
});
