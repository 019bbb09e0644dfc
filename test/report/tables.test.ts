import { expect, test } from "vitest";
import { MemoryLedger, memoryKinds } from "../../src/device/ledger.ts";
import { TrafficLedger } from "../../src/device/traffic.ts";
import { memoryTable, renderMemoryTables } from "../../src/report/memory-table.ts";
import { type Candidate, firstThatFits, type Room, renderRefusal } from "../../src/report/refusal.ts";
import { renderSizes } from "../../src/report/sizes-table.ts";
import { type Column, renderMarkdownTable, renderTable } from "../../src/report/table.ts";
import { renderTrafficTables } from "../../src/report/traffic-table.ts";
import type { RankMemory } from "../../src/report/types.ts";

const columns: Column[] = [
  { header: "kind", align: "left" },
  { header: "bytes", align: "right" },
];

test("a text table aligns its columns and leaves no trailing spaces", () => {
  expect(renderTable({ columns, rows: [["parameters", "1"], ["other"]] })).toBe(
    ["kind        bytes", "──────────  ─────", "parameters      1", "other"].join("\n"),
  );
});

test("a Markdown table marks right alignment and escapes bars", () => {
  expect(renderMarkdownTable({ columns, rows: [["a|b", "12"]] })).toBe(
    ["| kind | bytes |", "| ---- | ----: |", "| a\\|b |    12 |"].join("\n"),
  );
});

function ledger(parameterBytes: number): MemoryLedger {
  const memory = new MemoryLedger();
  memory.allocate("device", "parameters", parameterBytes);
  memory.allocate("device", "master", 4000);
  memory.allocate("device", "secondMoment", 4000);
  memory.beginPhase("backward");
  memory.allocate("device", "activations", 1_234_567);
  memory.free("device", "activations", 1_234_567);
  return memory;
}

function rank(parameterBytes: number): RankMemory {
  const memory = ledger(parameterBytes).snapshot();
  return { formula: { device: { optimizer: 7999.5 } }, forecast: memory, measured: memory };
}

test("the memory table shows used kinds and the total, to the byte", () => {
  expect(memoryTable(rank(2000), "device").rows).toEqual([
    ["parameters", "2,000", "2,000", "2,000", "2,000"],
    ["optimizer", "8,000", "8,000", "8,000", "8,000"],
    ["activations", "0", "0", "1,234,567", "1,234,567"],
    ["total", "10,000", "10,000", "1,244,567", "1,244,567"],
  ]);
});

test("expected and measured are told apart", () => {
  const { formula, forecast } = rank(2000);
  const [row] = memoryTable(
    { formula: { device: { ...formula.device, parameters: 1990 } }, forecast, measured: rank(3000).measured },
    "device",
  ).rows;
  expect(row).toEqual(["parameters", "1,990", "3,000", "2,000", "3,000"]);
});

test("ranks with equal figures share a table", () => {
  const text = renderMemoryTables([rank(2000), rank(2000), rank(3000), rank(2000)]);
  expect(text.match(/Device memory of .*/g)).toEqual([
    "Device memory of ranks 0-1, 3, each, in bytes:",
    "Device memory of rank 2, in bytes:",
  ]);
});

test("each tier that holds something has a table of its own", () => {
  const memory = ledger(2000);
  memory.allocate("host", "staging", 700);
  memory.free("host", "staging", 700);
  memory.allocate("host", "gradients", 500);
  const measured = memory.snapshot();
  const text = renderMemoryTables([{ formula: { host: { gradients: 499 } }, forecast: measured, measured }]);
  expect(text.match(/^\S.* of .*:$/gm)).toEqual([
    "Device memory of rank 0, in bytes:",
    "Host memory of rank 0, in bytes:",
  ]);
  expect(text).toMatch(/^gradients +499 +500 +500 +500$/m);
  expect(text).toMatch(/^staging +0 +0 +700 +700\ntotal +499 +500 +700 +700$/m);
});

const noTraffic = new TrafficLedger().snapshot();

test("the traffic table sets expected beside measured and adds up", () => {
  const forecast = new TrafficLedger();
  forecast.add("control", 3, 4, 8);
  const measured = new TrafficLedger();
  measured.add("reduceScatter", 1500, 1501, 4, 3);
  measured.add("allGather", 2500, 2500, 2, 2);
  const lines = renderTrafficTables([
    {
      terms: [
        { kind: "reduceScatter", name: "gradients, once", elements: 1500 },
        { kind: "allGather", name: "parameters", elements: 1000 },
        { kind: "allGather", name: "persistent", elements: 500 },
      ],
      forecast: forecast.snapshot(),
      measured: measured.snapshot(),
    },
  ]).split("\n");
  expect(lines[0]).toBe("Traffic of rank 0, in elements a step:");
  expect(lines.slice(3, 8).map((line) => line.split(/ {2,}/))).toEqual([
    ["reduce-scatter", "3", "1,500", "1,500", "1,500", "1,501", "6,000"],
    ["all-gather", "2", "1,500", "2,500", "1,500", "2,500", "5,000"],
    ["broadcast", "0", "0", "0", "0", "0", "0"],
    ["control", "0", "3", "0", "4", "0", "0"],
    ["total", "5", "3,003", "4,000", "3,004", "4,001", "11,000"],
  ]);
  expect(lines.slice(8)).toEqual([
    "  reduce-scatter: gradients, once: 1,500",
    "  all-gather: parameters: 1,000",
    "  all-gather: persistent: 500",
  ]);
});

test("copies between tiers have a table of their own once there are any, each in the direction that it goes", () => {
  const traffic = new TrafficLedger();
  traffic.add("down", 10, 0, 2);
  traffic.add("diskRead", 0, 8192, 1, 2);
  const measured = traffic.snapshot();
  const terms = [
    { kind: "down", name: "gradients, once", elements: 12 },
    { kind: "allGather", name: "parameters", elements: 5 },
  ] as const;
  const text = renderTrafficTables([{ terms, forecast: measured, measured }]);
  const [, copies] = text.split("\n\n");
  expect(copies!.split("\n").map((line) => line.split(/ {2,}/))).toEqual([
    ["Copies of rank 0, in elements a step (disk: bytes):"],
    ["copy", "calls", "expected", "measured", "bytes"],
    expect.anything(),
    ["device to host", "1", "12", "10", "20"],
    ["disk read", "2", "8,192", "8,192", "8,192"],
    ["", "device to host: gradients, once: 12"],
  ]);
  expect(renderTrafficTables([{ terms: [], forecast: noTraffic, measured: noTraffic }])).not.toMatch(/Copies/);
});

test("sizes are shown under DeepSpeed's names, sharding's own only where parameters are sharded", () => {
  const size = { elements: 1_048_576, why: "the largest unit" };
  const sizes = {
    reduceBucket: size,
    allgatherBucket: size,
    prefetch: size,
    liveParameters: size,
    reuseDistance: size,
    persistence: size,
    subGroup: size,
  };
  const namesAt = (split: "whole" | "shard"): (string | undefined)[] => {
    const residence = { split, tier: "device", dtype: "f32" } as const;
    const residences = { optimizer: residence, gradients: residence, parameters: residence };
    const lines = renderSizes({ sizes, residences }).split("\n").slice(2);
    expect(lines.every((line) => line.endsWith("1,048,576  the largest unit"))).toBe(true);
    return lines.map((line) => line.split(" ")[0]);
  };
  expect(namesAt("whole")).toEqual(["reduce_bucket_size", "allgather_bucket_size", "sub_group_size"]);
  expect(namesAt("shard")).toHaveLength(7);
});

const none = Object.fromEntries(memoryKinds.map((kind) => [kind, 0])) as Record<(typeof memoryKinds)[number], number>;
const atPeak = { ...none, parameters: 2e9, optimizer: 12e9, gradients: 2e9 };
const nothing = { bytes: 0, byKind: none };
const plain = { offloadOptimizer: "none", offloadParam: "none" } as const;
const onHost = { offloadOptimizer: "cpu", offloadParam: "none" } as const;
const onDisk = { offloadOptimizer: "nvme", offloadParam: "nvme" } as const;
const needOf = (device: number, host = 0, disk = 0) => ({ device, host, disk, memory: device + host });
const asked = { stage: 0, ...plain, need: needOf(16e9) } as const;
const candidates: readonly Candidate[] = [
  asked,
  { stage: 1, ...plain, need: needOf(10e9) },
  { stage: 2, ...plain, need: needOf(8e9) },
  { stage: 1, ...onHost, need: needOf(4e9, 3e9) },
  { stage: 3, ...onDisk, need: needOf(1e9, 1e9, 4e9) },
];
const refuse = (room: Partial<Room>): string =>
  renderRefusal({
    asked,
    room: { device: 100e9, host: 100e9, disk: 100e9, memory: 100e9, ...room },
    ranks: 4,
    highest: { device: { bytes: 16e9, byKind: atPeak }, host: nothing, disk: nothing },
    swapInMemoryBytes: 0,
    candidates,
    hasFolder: false,
  });

test("a refusal shows where the bytes would go, largest first, and the smallest change that fits", () => {
  const text = refuse({ device: 8e9 });
  expect(text).toMatch(/^ZeRO stage 0 needs 16\.0 GB of device memory a rank, and the budget is 8\.00 GB\.\nNothing/);
  expect(text).toMatch(/optimizer +12\.0 GB +75\.0 %\n(gradients|parameters)/);
  expect(text).toMatch(/\ntotal +16\.0 GB\n {2}model states +16\.0 GB +100\.0 %\nbudget +8\.00 GB +50\.0 %\n/);
  expect(text).toMatch(/\n0 +16\.0 GB +no\n1 +10\.0 GB +no\n2 +8\.00 GB +yes\n\n/);
  expect(text).toMatch(/\nStage 2 fits:\n {2}--stage 2$/);
  expect(Math.max(...text.split("\n").map((line) => line.length))).toBeLessThanOrEqual(100);
});

test("tiers come after stages, with the flags that ask for them", () => {
  const rows = refuse({ device: 5e9 }).match(/^\d .*$/gm);
  expect(rows?.map((row) => row.split(/ {2,}/))).toEqual([
    ["0 *", "device", "device", "16.0 GB", "0 B", "0 B", "no: device"],
    ["1", "device", "device", "10.0 GB", "0 B", "0 B", "no: device"],
    ["1", "host", "device", "4.00 GB", "3.00 GB", "0 B", "yes"],
    ["2", "device", "device", "8.00 GB", "0 B", "0 B", "no: device"],
    ["3", "disk", "disk", "1.00 GB", "1.00 GB", "4.00 GB", "yes"],
  ]);
  expect(refuse({ device: 5e9 })).toMatch(
    /\nStage 1 with optimizer states on the host fits:\n {2}--stage 1 \\\n {2}--set zero_optimization\.offload_optimizer\.device=cpu$/,
  );
  expect(refuse({ device: 5e9, host: 2e9 })).toMatch(
    /\nStage 3 with optimizer states and parameters on disk fits:(\n.*)*offload_param\.device=nvme(.*\n)*.*offload_optimizer\.nvme_path=FOLDER$/,
  );
});

test("what fits the cards and what fits this machine are told apart", () => {
  const text = refuse({ device: 12e9, memory: 3e9 });
  expect(text).toMatch(/of 4 ranks has, as its share of this machine's memory, 3\.00 GB\./);
  expect(text).toMatch(/\n1 +device +device +10\.0 GB +0 B +0 B +no: this machine\n/);
  expect(text).toMatch(/\nStage 1 fits the budgets, but not this machine's memory\.\nStage 3 with .* on disk fits:\n/);
});

test("a refusal says so where nothing fits", () => {
  const text = refuse({ device: 0.5e9 });
  expect(firstThatFits(candidates, { device: 0.5e9, host: 1, disk: 1, memory: 1 })).toBeUndefined();
  expect(text.replace(/\s+/g, " ")).toContain(
    "No stage fits, with offload or without; the least is 1.00 GB of device memory on a rank, or 2.00 GB of device and host memory together.",
  );
});
