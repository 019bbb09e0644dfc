// The ledgers' arithmetic: peaks by kind, phase and step, the optimizer's parts, budgets, and the counts of traffic.
import { describe, expect, test } from "vitest";
import { MemoryLedger, memoryKinds } from "../../src/device/ledger.ts";
import { TrafficLedger, trafficKinds } from "../../src/device/traffic.ts";
import { InternalError, MemoryBudgetError } from "../../src/errors/errors.ts";

describe("memory ledger", () => {
  test("a kind's peak is its own highest moment, the total's peak is another", () => {
    const ledger = new MemoryLedger();
    ledger.allocate("device", "parameters", 100);
    ledger.allocate("device", "activations", 50);
    ledger.free("device", "activations", 50);
    ledger.allocate("device", "buckets", 40);
    ledger.allocate("device", "activations", 20);
    const { device, atPeak, peakByPhase } = ledger.snapshot();
    expect(device.activations).toEqual({ current: 20, peak: 50 });
    expect(device.buckets).toEqual({ current: 40, peak: 40 });
    expect(atPeak).toMatchObject({ parameters: 100, buckets: 40, activations: 20 });
    expect(peakByPhase).toEqual({ init: 160, forward: 0, backward: 0, step: 0 });
  });

  test("the optimizer's parts add up to it", () => {
    const ledger = new MemoryLedger();
    for (const part of ["master", "firstMoment", "secondMoment"] as const) ledger.allocate("device", part, 8);
    ledger.free("device", "secondMoment", 8);
    const { device, atPeak } = ledger.snapshot();
    expect(device.optimizer).toEqual({ current: 16, peak: 24 });
    expect(device.master).toEqual({ current: 8, peak: 8 });
    expect(ledger.total("device")).toBe(16);
    expect(Object.keys(atPeak).sort()).toEqual([...memoryKinds].sort());
    expect(Object.values(atPeak).reduce((a, b) => a + b, 0)).toBe(24);
  });

  test("a step's peaks start from what is held", () => {
    const ledger = new MemoryLedger();
    ledger.allocate("device", "parameters", 100);
    ledger.allocate("device", "scratch", 900);
    ledger.free("device", "scratch", 900);
    ledger.beginStep();
    ledger.beginPhase("forward");
    ledger.allocate("device", "activations", 30);
    ledger.beginPhase("backward");
    ledger.free("device", "activations", 30);
    ledger.allocate("device", "activations", 10);
    ledger.beginPhase("step");
    const { device, peakByPhase, atPeak } = ledger.snapshot();
    expect(device.scratch).toEqual({ current: 0, peak: 0 });
    expect(peakByPhase).toMatchObject({ forward: 130, backward: 130, step: 110 });
    expect(atPeak).toMatchObject({ parameters: 100, activations: 30, scratch: 0 });
  });

  test("tiers are apart", () => {
    const ledger = new MemoryLedger({ device: 100 });
    ledger.allocate("host", "parameters", 1000);
    expect(ledger.total("device")).toBe(0);
    expect(ledger.snapshot().host.parameters.current).toBe(1000);
    expect(ledger.snapshot().peakByPhase.init).toBe(0);
  });

  test("a budget holds to the byte, names what is held, and a refusal enters nothing", () => {
    const ledger = new MemoryLedger({ device: 100 });
    ledger.allocate("device", "parameters", 60);
    ledger.allocate("device", "activations", 40);
    ledger.free("device", "activations", 40);
    expect(() => ledger.allocate("device", "gradients", 41)).toThrow(MemoryBudgetError);
    expect(() => ledger.allocate("device", "gradients", 41)).toThrow(/41 bytes more for gradients.*100.*parameters 60/);
    expect(ledger.total("device")).toBe(60);
    expect(ledger.current("device", "gradients")).toBe(0);
    ledger.allocate("device", "gradients", 40);
  });

  test("more freed than held is our own bug", () => {
    const ledger = new MemoryLedger();
    ledger.allocate("device", "other", 8);
    expect(() => ledger.free("device", "other", 9)).toThrow(InternalError);
  });
});

describe("traffic ledger", () => {
  test("adds up calls, elements and bytes by kind until the next step", () => {
    const ledger = new TrafficLedger();
    ledger.add("allGather", 10, 30, 2);
    ledger.add("allGather", 5, 5, 4, 2);
    ledger.addOperations(7);
    expect(ledger.snapshot().allGather).toEqual({
      calls: 3,
      elementsSent: 15,
      bytesSent: 40,
      elementsReceived: 35,
      bytesReceived: 80,
    });
    expect(ledger.operations).toBe(7);
    const before = ledger.snapshot();
    ledger.beginStep();
    expect(ledger.operations).toBe(0);
    for (const kind of trafficKinds) expect(ledger.snapshot()[kind].elementsSent).toBe(0);
    expect(before.allGather.calls).toBe(3);
  });
});

test("swap files in memory are taken out of the host's budget and are no allocation", () => {
  const ledger = new MemoryLedger({ host: 1000 });
  ledger.allocate("host", "master", 300);
  ledger.reserve("host", 500);
  expect(ledger.total("host")).toBe(300);
  expect(() => ledger.allocate("host", "master", 201)).toThrow(
    /held now: optimizer 300, swap files 500 \(800 in all\)/,
  );
  ledger.allocate("host", "master", 200);
  expect(() => ledger.reserve("host", 1)).toThrow(/host memory: 1 bytes more for swap files do not fit/);
  ledger.reserve("disk", 1e15);
});

test("the fullest moments since the start outlive steps; those of a step do not", () => {
  const ledger = new MemoryLedger();
  ledger.allocate("host", "staging", 50);
  ledger.allocate("device", "parameters", 100);
  ledger.free("host", "staging", 50);
  ledger.allocate("host", "gradients", 20);
  ledger.beginStep();
  expect(ledger.highest("host")).toMatchObject({ bytes: 50, byKind: { staging: 50, gradients: 0 } });
  expect(ledger.highestInMemory).toBe(150);
  expect(ledger.snapshot().peakByTier).toEqual({ device: 100, host: 20, disk: 0 });
});
