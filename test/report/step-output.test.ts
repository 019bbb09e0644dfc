import { expect, test } from "vitest";
import { MemoryLedger, memoryKinds, phases, tiers } from "../../src/device/ledger.ts";
import { OverlapLedger } from "../../src/device/overlap.ts";
import { TrafficLedger, trafficKinds } from "../../src/device/traffic.ts";
import { renderChart } from "../../src/report/chart.ts";
import { describeTerminal, type Progress, renderProgress } from "../../src/report/progress.ts";
import { renderStepRecord, stepRecord } from "../../src/report/step-record.ts";
import type { StepSummary } from "../../src/report/types.ts";

const summary: StepSummary = {
  step: 3,
  loss: 4.25,
  targets: 4096,
  gradNorm: 1.5,
  learningRate: 3e-4,
  lossScale: 1,
  skipped: false,
  reason: undefined,
  tokensPerSecond: 1234.5,
  phaseSeconds: undefined,
};

test("a log line holds every kind, phase and collective of every rank", () => {
  const memory = new MemoryLedger();
  memory.allocate("device", "firstMoment", 64);
  const traffic = new TrafficLedger();
  traffic.add("allGather", 8, 8, 2);
  const overlap = new OverlapLedger().take();
  const rank = { memory: memory.snapshot(), traffic: traffic.snapshot(), operations: 99, overlap };
  const line = renderStepRecord(stepRecord(summary, [rank, rank]));
  expect(line.endsWith("}\n")).toBe(true);
  expect(line.trimEnd()).not.toContain("\n");
  const record = JSON.parse(line);
  const { phaseSeconds: _, ...logged } = { ...summary, reason: null };
  expect(record).toMatchObject(logged);
  expect(Object.keys(record)).toEqual([...Object.keys(logged), "ranks"]);
  expect(record.ranks).toHaveLength(2);
  const first = record.ranks[0];
  expect(Object.keys(first)).toEqual(["memory", "traffic", "operations"]);
  expect(Object.keys(first.memory)).toEqual([...tiers, "peakByPhase"]);
  for (const tier of tiers) expect(Object.keys(first.memory[tier])).toEqual([...memoryKinds]);
  expect(Object.keys(first.memory.peakByPhase)).toEqual([...phases]);
  expect(first.memory.device.optimizer).toEqual({
    current: 64,
    peak: 64,
    master: { current: 0, peak: 0 },
    firstMoment: { current: 64, peak: 64 },
    secondMoment: { current: 0, peak: 0 },
  });
  expect(Object.keys(first.traffic)).toEqual([...trafficKinds]);
  expect(first.traffic.allGather).toEqual({
    calls: 1,
    elementsSent: 8,
    bytesSent: 16,
    elementsReceived: 8,
    bytesReceived: 16,
  });
});

test("a loss of NaN and a skipped norm are null in the log", () => {
  const record = JSON.parse(renderStepRecord(stepRecord({ ...summary, loss: Number.NaN, gradNorm: null }, [])));
  expect([record.loss, record.gradNorm]).toEqual([null, null]);
});

const progress: Progress = { ...summary, steps: 20, peakBytes: 1.5e9, secondsLeft: 90 };
const plain = "step 3/20  loss 4.250  lr 0.0003000  norm 1.500  tokens/s 1,235  memory 1.50 GB  left 1 min 30 s";

test("a step is one plain line where there is no terminal", () => {
  expect(renderProgress(progress, describeTerminal({}, {}))).toBe(`${plain}\n`);
  expect(renderProgress({ ...progress, skipped: true, gradNorm: null }, describeTerminal({}, {}))).toContain(
    "norm skipped",
  );
});

test("a terminal's line is rewritten, fits, and obeys NO_COLOR", () => {
  const wide = renderProgress(progress, describeTerminal({ isTTY: true, columns: 200 }, { NO_COLOR: "1" }));
  expect(wide).toBe(`\r\u001b[2K${plain}`);
  const narrow = renderProgress(progress, describeTerminal({ isTTY: true, columns: 30 }, { NO_COLOR: "1" }));
  expect(narrow).toBe("\r\u001b[2Kstep 3/20  loss 4.250");
  const coloured = renderProgress(progress, describeTerminal({ isTTY: true, columns: 200 }, {}));
  expect(coloured).toContain("\u001b[1m4.250\u001b[22m");
});

test("a terminal of 0 columns is taken for one of 80", () => {
  expect(describeTerminal({ isTTY: true, columns: 0 }, {}).columns).toBe(80);
});

test("a chart has its size, its bounds and its steps", () => {
  const lines = renderChart("loss", [5, 4, 3.5, 3, 2.9], { width: 60, height: 6 }).split("\n");
  expect(lines).toHaveLength(8);
  expect(lines[0]).toBe("loss");
  expect(lines[1]).toMatch(/^5\.000 ┤[\u2801-\u28ff]/);
  expect(lines[6]).toMatch(/^2\.900 ┤/);
  expect(lines[7]).toMatch(/step 1 +step 5$/);
  expect(Math.max(...lines.map((line) => line.length))).toBe(60);
});

test.each([
  [[]],
  [[Number.NaN]],
  [[2]],
  [[2, 2, 2]],
  [[3, Number.NaN, 1]],
  [Array.from({ length: 5000 }, (_, i) => -i)],
])("a chart of odd values is drawn or said to be empty (%#)", (values) => {
  const text = renderChart("loss", values);
  expect(text.startsWith("loss")).toBe(true);
  expect(text).not.toContain("undefined");
});
