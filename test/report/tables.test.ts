import { expect, test } from "vitest";
import { MemoryLedger, memoryKinds } from "../../src/device/ledger.ts";
import { TrafficLedger } from "../../src/device/traffic.ts";
import { memoryTable, renderMemoryTables } from "../../src/report/memory-table.ts";
import { renderRefusal, stageThatFits } from "../../src/report/refusal.ts";
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
  return { formula: { optimizer: 7999.5 }, forecast: memory, measured: memory };
}

test("the memory table shows used kinds and the total, to the byte", () => {
  expect(memoryTable(rank(2000)).rows).toEqual([
    ["parameters", "2,000", "2,000", "2,000", "2,000"],
    ["optimizer", "8,000", "8,000", "8,000", "8,000"],
    ["activations", "0", "0", "1,234,567", "1,234,567"],
    ["total", "10,000", "10,000", "1,244,567", "1,244,567"],
  ]);
});

test("expected and measured are told apart", () => {
  const { formula, forecast } = rank(2000);
  const [row] = memoryTable({
    formula: { ...formula, parameters: 1990 },
    forecast,
    measured: rank(3000).measured,
  }).rows;
  expect(row).toEqual(["parameters", "1,990", "3,000", "2,000", "3,000"]);
});

test("ranks with equal figures share a table", () => {
  const text = renderMemoryTables([rank(2000), rank(2000), rank(3000), rank(2000)]);
  expect(text.match(/Device memory of .*/g)).toEqual([
    "Device memory of ranks 0-1, 3, each, in bytes:",
    "Device memory of rank 2, in bytes:",
  ]);
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
        { collective: "reduceScatter", name: "gradients, once", elements: 1500 },
        { collective: "allGather", name: "parameters", elements: 1000 },
        { collective: "allGather", name: "persistent", elements: 500 },
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

test("copies between tiers appear once there are any", () => {
  const traffic = new TrafficLedger();
  traffic.add("down", 10, 0, 2);
  const text = renderTrafficTables([{ terms: [], forecast: noTraffic, measured: traffic.snapshot() }]);
  expect(text).toMatch(/\ndevice to host {2}/);
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

const stages = [
  { stage: 0, peakBytes: 16e9 },
  { stage: 1, peakBytes: 10e9 },
  { stage: 2, peakBytes: 8e9 },
  { stage: 3, peakBytes: 5e9 },
];
const none = Object.fromEntries(memoryKinds.map((kind) => [kind, 0])) as Record<(typeof memoryKinds)[number], number>;
const atPeak = { ...none, parameters: 2e9, optimizer: 12e9, gradients: 2e9 };

test("a refusal shows where the bytes would go, largest first, and the stage that fits", () => {
  const text = renderRefusal({ stage: 0, budgetBytes: 8e9, atPeak, stages });
  expect(text).toMatch(/^ZeRO stage 0 needs 16\.0 GB of device memory on a rank, and the budget is 8\.00 GB\./);
  expect(text).toMatch(/optimizer +12\.0 GB +75\.0 %\n(gradients|parameters)/);
  expect(text).toContain("Stage 2 fits");
  expect(text).toMatch(/\n1 +10\.0 GB +no\n2 +8\.00 GB +yes\n/);
});

test("a refusal says so where no stage fits", () => {
  expect(stageThatFits(stages, 1e9)).toBeUndefined();
  expect(renderRefusal({ stage: 3, budgetBytes: 1e9, atPeak, stages })).toContain(
    "No stage fits; the least is 5.00 GB",
  );
});
