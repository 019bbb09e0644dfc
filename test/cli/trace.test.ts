// `shunya train --trace`: a file that any reader of Chrome traces opens, however training ends.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { recordTrace, type TraceMessage } from "../../src/cli/trace-rank.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import type { LoggedStep } from "../../src/report/step-record.ts";
import { until } from "../launch/processes.ts";
import { engineOf, smallJob, trainStep } from "../zero/support.ts";
import { root, run, start, temporaryFolder, tinyModel, tinyTokens, writeFiles } from "./command.ts";

const here = temporaryFolder();
const tiny = ["train", "--model", tinyModel, "--data", tinyTokens, "--seq-length", "32", "--threads", "1"];

interface TraceEvent {
  readonly name: string;
  readonly ph: "X" | "M" | "i";
  readonly pid: number;
  readonly tid: number;
  readonly cat?: string;
  readonly ts: number;
  readonly dur: number;
  readonly args: { readonly name?: string };
}

const readTrace = (path: string): TraceEvent[] => JSON.parse(readFileSync(path, "utf8")) as TraceEvent[];

/** What a thread did, in the order of the file. */
function spansOf(events: readonly TraceEvent[], rank: number, thread: string): TraceEvent[] {
  const pid = events.find((e) => e.name === "process_name" && e.args.name === `rank ${rank}`)!.pid;
  const { tid } = events.find((e) => e.name === "thread_name" && e.pid === pid && e.args.name === thread)!;
  return events.filter((e) => e.pid === pid && e.tid === tid && e.ph === "X");
}

const namesOf = (events: readonly TraceEvent[]): Set<string> => new Set(events.map((e) => e.name));

test("a trace holds every rank, queue, step and phase; the log and the end say what was hidden", async () => {
  const [trace, log] = [join(here, "trace.json"), join(here, "log.ndjson")];
  writeFiles(here, {
    "disk.json": {
      train_micro_batch_size_per_gpu: 2,
      gradient_clipping: 1,
      optimizer: { type: "AdamW" },
      zero_optimization: {
        stage: 3,
        stage3_param_persistence_threshold: 0,
        offload_optimizer: { device: "nvme", nvme_path: root },
      },
    },
  });
  const flags = [
    "--config",
    join(here, "disk.json"),
    "--ranks",
    "2",
    "--steps",
    "4",
    "--trace",
    trace,
    "--log-json",
    log,
  ];
  const { exitCode, stdout, stderr } = await run([...tiny, ...flags]);
  expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  const events = readTrace(trace);
  for (const rank of [0, 1]) {
    for (const thread of ["compute", "collective", "copy down", "copy up", "host update", "disk read", "disk write"]) {
      const spans = spansOf(events, rank, thread);
      expect(spans.length).toBeGreaterThan(0);
      for (const [i, { ts, dur }] of spans.entries()) {
        expect(dur).toBeGreaterThanOrEqual(0);
        const before = spans[i - 1];
        if (before) expect(ts).toBeGreaterThanOrEqual(before.ts + before.dur - 0.01); // rounded to nanoseconds
      }
    }
    const [program, names] = [spansOf(events, rank, "program"), namesOf(events)];
    for (const name of ["step 1", "step 4", "forward", "backward", "step"]) expect(namesOf(program)).toContain(name);
    for (const name of ["read states of", "write states of", "update", "copy up", "copy down", "gather", "reduce"])
      expect([...names].filter((n) => n.startsWith(`${name} `)).length).toBeGreaterThan(1);
    // The last step's update is there to its end.
    const updates = spansOf(events, rank, "host update").filter((e) => e.name === "update transformer.h.1");
    expect(updates.length % 4).toBe(0);
    expect(updates.length).toBeGreaterThan(0);
  }
  // Ranks of one machine share the clock: in each step of one the other is in the same step for most of it.
  const [first, second] = [0, 1].map((rank) => spansOf(events, rank, "program").find((e) => e.name === "step 2")!);
  expect(Math.max(first!.ts, second!.ts)).toBeLessThan(Math.min(first!.ts + first!.dur, second!.ts + second!.dur));
  expect(stdout.replaceAll("\n  ", " ")).toMatch(
    /^Hidden behind compute, a rank: .*copy down \d+ % .*disk write \d+ % of [\d.]+ s\.$/m,
  );
  const steps = readFileSync(log, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as LoggedStep);
  for (const { hidden } of steps.slice(1).flatMap((s) => s.ranks)) {
    expect(Object.keys(hidden!)).toEqual(["collective", "down", "up", "update", "diskRead", "diskWrite"]);
    const { seconds, waitedSeconds, share } = hidden!.down;
    expect(share).toBeCloseTo(1 - waitedSeconds / seconds, 12);
  }
});

test("Ctrl-C leaves whole JSON with the steps until then", async () => {
  const trace = join(here, "stopped.json");
  const { child, output, ended } = start([...tiny, "--ranks", "2", "--steps", "100000", "--trace", trace]);
  await until(() => output.stdout.includes("step 1/"), 20_000);
  child.kill("SIGINT");
  expect((await ended).exitCode).toBe(exitCodes.interrupted);
  for (const rank of [0, 1]) expect(namesOf(spansOf(readTrace(trace), rank, "program"))).toContain("step 1");
});

test("a run that fails leaves whole JSON with the steps until then", async () => {
  const trace = join(here, "failed.json");
  const diverges = ["--lr", "1e30", "--set", "gradient_clipping=0", "--steps", "20"];
  const { exitCode } = await run([...tiny, ...diverges, "--trace", trace]);
  expect(exitCode).toBe(exitCodes.numerical);
  expect(namesOf(spansOf(readTrace(trace), 0, "program"))).toContain("step 2");
});

test("a rank that is killed leaves whole JSON with what it had told", { timeout: 60_000 }, async () => {
  const trace = join(here, "killed.json");
  const { child, output, ended } = start([...tiny, "--ranks", "2", "--steps", "100000", "--trace", trace]);
  await until(() => output.stdout.includes("step 1/"), 20_000);
  child.kill("SIGINT"); // asks for a clean stop,
  await new Promise((resolve) => setTimeout(resolve, 400));
  child.kill("SIGINT"); // which a second time is not waited for
  await ended;
  expect(namesOf(spansOf(readTrace(trace), 0, "program"))).toContain("step 1");
});

test("a trace that cannot be written is refused, one that cannot grow costs the trace alone", async () => {
  const nowhere = join(here, "no/such/folder.json");
  const refused = await run([...tiny, "--steps", "1", "--trace", nowhere]);
  expect(refused).toMatchObject({ exitCode: exitCodes.user, stderr: expect.stringContaining(`--trace ${nowhere}`) });
  const input = await run([...tiny, "--steps", "1", "--trace", tinyTokens]);
  expect(input).toMatchObject({ exitCode: exitCodes.user, stderr: expect.stringMatching(/--trace .* also a file/) });
  if (!existsSync("/dev/full")) return;
  const full = await run([...tiny, "--steps", "2", "--trace", "/dev/full"]);
  expect(full.stderr).toMatch(/^warning: the trace \/dev\/full ends here, training goes on: .*\n$/);
  expect(full.exitCode).toBe(exitCodes.ok);
});

test("a trace ends at its limit and says in which step; the run goes on, untimed", async () => {
  const job = smallJob();
  await using engine = await engineOf({ job });
  const messages: TraceMessage[] = [];
  recordTrace(engine, (message) => messages.push(message), 300);
  for (let step = 0; step < 4; step++) await trainStep(engine, job, step);
  const events = JSON.parse(`[0${messages.map((m) => m.events).join("")}]`) as TraceEvent[];
  expect(events.filter((e) => e.ph === "X" || e.ph === "i")).toHaveLength(300);
  expect(messages.flatMap((m) => m.endsInStep ?? [])).toEqual([expect.any(Number)]);
  expect(messages.at(-1)!.endsInStep).toBeLessThan(4);
  expect(engine.device.timeline.isOn).toBe(false);
});
