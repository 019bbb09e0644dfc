// What each section of a configuration makes a run say and write.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import type { ReportingConfig, ResolvedConfig } from "../../src/config/types.ts";
import { UsageError } from "../../src/errors/errors.ts";
import { createLogger } from "../../src/log/logger.ts";
import { AppendFile } from "../../src/monitor/append-file.ts";
import { RunReport } from "../../src/monitor/run-report.ts";
import type { Forecast } from "../../src/zero/forecast.ts";
import { readEvents } from "./read-events.ts";
import { foretell, recordOf } from "./scene.ts";

const here = mkdtempSync(join(tmpdir(), "shunya-monitor-"));
afterAll(() => rmSync(here, { recursive: true, force: true }));

const warnings: string[] = [];
const logger = createLogger({ rank: 0, write: (line) => warnings.push(line) });

async function begin(
  reporting: Partial<ReportingConfig>,
  changes: Partial<ResolvedConfig> = {},
): Promise<{ report: RunReport; foretold: Forecast }> {
  const foretold = await foretell(reporting, changes);
  const { plan, operationsByUnit } = foretold;
  return { report: new RunReport({ plan, operationsByUnit: () => operationsByUnit, logger }), foretold };
}

test("a run that asks for nothing says nothing", async () => {
  const { report, foretold } = await begin({});
  expect(report.begin() + report.step(recordOf(foretold, 10)) + report.end()).toBe("");
});

test("wall_clock_breakdown: the mean of the steps since the last line, and shares at the end", async () => {
  const { report, foretold } = await begin({ wallClockBreakdown: true, stepsPerPrint: 2 });
  expect(report.step(recordOf(foretold, 1))).toBe("");
  const slow = { seconds: 0.4, phaseSeconds: { forward: 0.15, backward: 0.2, step: 0.03 } };
  expect(report.step(recordOf(foretold, 2, slow))).toBe(
    "step 2: forward 100.0 ms, backward 150.0 ms, step 30.0 ms, between them 20.0 ms\n",
  );
  report.step(recordOf(foretold, 3));
  expect(report.step(recordOf(foretold, 4))).toMatch(/^step 4: forward 50\.0 ms/);
  const lines = report.end().trim().split("\n");
  expect(lines[0]).toBe("Time of 4 steps by phase:");
  expect(lines.slice(3).map((line) => line.split(/ {2,}/))).toEqual([
    ["forward", "0.30", "75.0", "30.0 %"],
    ["backward", "0.50", "125.0", "50.0 %"],
    ["step", "0.12", "30.0", "12.0 %"],
    ["between them", "0.08", "20.0", "8.0 %"],
    ["total", "1.00", "250.0", "100.0 %"],
  ]);
});

test("memory_breakdown: each rank's kinds, where a line is due", async () => {
  const { report, foretold } = await begin({ memoryBreakdown: true, stepsPerPrint: 2 });
  expect(report.step(recordOf(foretold, 1))).toBe("");
  const text = report.step(recordOf(foretold, 2));
  expect(text).toMatch(/^Memory of ranks 0-1, each, after step 2:\n/);
  const rows = text.trim().split("\n").slice(3);
  expect(rows.map((row) => row.split(/ +/)[1])).toEqual(expect.arrayContaining(["parameters", "optimizer", "total"]));
});

test("comms_logger: totals of the run by kind, and every step with verbose", async () => {
  const { report, foretold } = await begin({ commsLogger: { verbose: true } });
  const { reduceScatter, allGather } = foretold.report.traffic;
  expect(reduceScatter.calls * allGather.calls).toBeGreaterThan(0);
  const line = report.step(recordOf(foretold, 1)).split("\n")[0];
  const sent = reduceScatter.elementsSent.toLocaleString("en-US");
  expect(line).toMatch(`step 1: reduce-scatter: ${reduceScatter.calls} calls, ${sent} elements (`);
  for (const step of [2, 3]) report.step(recordOf(foretold, step));
  const text = report.end();
  expect(text).toMatch("Communication of rank 0 in 3 steps:");
  const row = text.split("\n").find((l) => l.startsWith("reduce-scatter"))!;
  expect(row.split(/ {2,}/).slice(1, 4)).toEqual(
    [reduceScatter.calls, reduceScatter.elementsSent, reduceScatter.bytesSent].map((n) =>
      (3 * n).toLocaleString("en-US"),
    ),
  );
  expect(text).not.toMatch(/bandwidth|\/s/);
});

test("without verbose the communication logger is silent until the end", async () => {
  const { report, foretold } = await begin({ commsLogger: { verbose: false } });
  expect(report.step(recordOf(foretold, 1))).toBe("");
  expect(report.end()).toMatch("Communication of rank 0");
});

const profiler = { profileStep: 2, moduleDepth: -1, topModules: 2, detailed: true, outputFile: undefined };

test("flops_profiler: the modules of the step that was asked for, adding up to the ledger's count", async () => {
  const { report, foretold } = await begin({ flopsProfiler: profiler });
  expect(report.step(recordOf(foretold, 1))).toBe("");
  const text = report.step(recordOf(foretold, 2));
  expect(text).toMatch(/^Floating-point operations of step 2:/);
  expect(text).toMatch(/speed: .*FLOP\/s of all ranks, 60\.0 samples\/s, 0\.200 s a step/);
  const units = foretold.plan.units.map((unit) => unit.name);
  for (const unit of units) expect(text).toContain(`\n${unit} `);
  const all = [...foretold.operationsByUnit.values()].reduce(
    (sum, { forward, backward }) => sum + forward + backward,
    0,
  );
  expect(all * 3).toBe(foretold.report.operations);
  expect(text).toMatch(/most expensive: [^,]+ \(\d+\.\d %\), [^,]+ \(\d+\.\d %\)\n/);
  expect(report.step(recordOf(foretold, 3))).toBe("");
});

test("flops_profiler: depth joins modules, detailed false leaves them out", async () => {
  const { report, foretold } = await begin({ flopsProfiler: { ...profiler, moduleDepth: 1 } });
  const text = report.step(recordOf(foretold, 2));
  expect(text).toMatch(/\ntransformer /);
  expect(text).not.toMatch(/\ntransformer\.h/);
  const brief = await begin({ flopsProfiler: { ...profiler, detailed: false, topModules: 1 } });
  const lines = brief.report.step(recordOf(brief.foretold, 2)).trimEnd().split("\n");
  expect(lines).toHaveLength(6);
  expect(lines[5]).toMatch(/most expensive: [^,]+$/);
});

test("flops_profiler.output_file gets the profile", async () => {
  const outputFile = join(here, "profiles", "step2.txt");
  const { report, foretold } = await begin({ flopsProfiler: { ...profiler, outputFile } });
  expect(report.step(recordOf(foretold, 2))).toBe(`The profile of step 2 is in ${outputFile}.\n`);
  expect(readFileSync(outputFile, "utf8")).toMatch(/^Floating-point operations of step 2:(?:.*\n)*\(root\) /);
});

test("dump_state: the resolved values and the plan, as JSON", async () => {
  const { report } = await begin({ dumpState: true });
  const state = JSON.parse(report.begin().replace(/^.*\n/, ""));
  expect(state.config).toMatchObject({ stage: 2, trainBatch: 12, optimizer: { type: "AdamW" } });
  expect(state.sources).toEqual({ "zero_optimization.stage": "file" });
  expect(state.plan.units.map((u: { name: string }) => u.name)).toEqual([
    "(root)",
    "transformer.h.0",
    "transformer.h.1",
  ]);
  expect(state.plan.sizes.reduceBucket.elements).toBeGreaterThan(0);
});

const folder = (name: string) => ({ outputPath: join(here, name), jobName: "job" });

test("csv_monitor: a file per tag, by samples; another run goes on in it", async () => {
  for (const round of [0, 1]) {
    const { report, foretold } = await begin({ csvMonitor: folder("csv") });
    for (const step of [1, 2]) report.step(recordOf(foretold, 2 * round + step));
    report[Symbol.dispose]();
  }
  expect(readdirSync(join(here, "csv", "job")).sort()).toEqual([
    "Train_Samples_lr.csv",
    "Train_Samples_train_loss.csv",
  ]);
  const loss = readFileSync(join(here, "csv", "job", "Train_Samples_train_loss.csv"), "utf8");
  expect(loss).toBe("step,train_loss\n12,3.9\n24,3.8\n36,3.7\n48,3.6\n");
});

test("the loss on validation data is a metric of the steps that have one", async () => {
  const foretold = await foretell({ csvMonitor: folder("validated") });
  const { plan, operationsByUnit } = foretold;
  const options = { plan, operationsByUnit: () => operationsByUnit, logger };
  using report = new RunReport({ ...options, validates: true });
  report.step(recordOf(foretold, 1));
  report.step(recordOf(foretold, 2), 4.25);
  const text = readFileSync(join(here, "validated", "job", "Validation_loss.csv"), "utf8");
  expect(text).toBe("step,loss\n24,4.25\n");
});

test("the loss scale is a metric of fp16 alone, phases of wall_clock_breakdown", async () => {
  const changes: Partial<ResolvedConfig> = {
    precision: "fp16",
    gradientReduction: { type: "fp16", operation: "mean", divideBefore: 1 },
    lossScale: { kind: "static", scale: 128 },
  };
  const { report, foretold } = await begin({ csvMonitor: folder("fp16"), wallClockBreakdown: true }, changes);
  report.step(recordOf(foretold, 1, { lossScale: 128, skipped: true, gradNorm: null, loss: Number.NaN }));
  const read = (tag: string) => readFileSync(join(here, "fp16", "job", `Train_Samples_${tag}.csv`), "utf8");
  expect(read("loss_scale")).toBe("step,loss_scale\n12,128\n");
  expect(read("train_loss")).toBe("step,train_loss\n12,NaN\n");
  expect(read("elapsed_time_ms_backward")).toBe("step,elapsed_time_ms_backward\n12,100\n");
});

test("tensorboard: an event file that is whole after every step, without being closed", async () => {
  const { report, foretold } = await begin({ tensorboard: folder("board") });
  const [name] = readdirSync(join(here, "board", "job"));
  expect(name).toMatch(/^events\.out\.tfevents\.\d{10}\./);
  for (const step of [1, 2]) {
    report.step(recordOf(foretold, step));
    const events = readEvents(readFileSync(join(here, "board", "job", name!)));
    expect(events).toHaveLength(step + 1);
    expect(events[0]!.version).toBe("brain.Event:2");
    expect(events.at(-1)).toMatchObject({
      step: 12 * step,
      scalars: [
        { tag: "Train/Samples/train_loss", value: Math.fround(4 - step / 10) },
        { tag: "Train/Samples/lr", value: Math.fround(1e-3) },
      ],
    });
  }
});

test("a folder that cannot be made is refused before the run begins, by the key's name", async () => {
  writeFileSync(join(here, "file"), "");
  const monitor = { outputPath: join(here, "file"), jobName: "job" };
  for (const key of ["csvMonitor", "tensorboard"] as const) {
    const start = begin({ [key]: monitor });
    await expect(start).rejects.toThrow(UsageError);
    await expect(start).rejects.toThrow(/(csv_monitor|tensorboard)\.output_path: .*file\/job.*cannot be written/);
  }
  const flopsProfiler = { ...profiler, outputFile: join(here, "file", "profile.txt") };
  await expect(begin({ flopsProfiler })).rejects.toThrow(/flops_profiler\.output_file: .*cannot be written/);
});

test("a disk that is full already is refused too", { skip: !existsSync("/dev/full") }, async () => {
  mkdirSync(join(here, "full", "job"), { recursive: true });
  symlinkSync("/dev/full", join(here, "full", "job", "Train_Samples_lr.csv"));
  await expect(begin({ csvMonitor: folder("full") })).rejects.toThrow(/csv_monitor\.output_path: .*ENOSPC/);
});

test("a disk that fills up later costs the monitor, not the training", async () => {
  warnings.length = 0;
  const { report, foretold } = await begin({ csvMonitor: folder("filling"), tensorboard: folder("beside") });
  report.step(recordOf(foretold, 1));
  const append = vi.spyOn(AppendFile.prototype, "append").mockImplementationOnce(() => {
    throw new Error("ENOSPC: no space left on device, write");
  });
  for (const step of [2, 3]) report.step(recordOf(foretold, step));
  append.mockRestore();
  expect(warnings).toEqual([
    "warning: csv_monitor ends here, training goes on: ENOSPC: no space left on device, write\n",
  ]);
  const [name] = readdirSync(join(here, "beside", "job"));
  expect(readEvents(readFileSync(join(here, "beside", "job", name!)))).toHaveLength(4);
});
