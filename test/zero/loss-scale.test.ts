// DeepSpeed's traces of the dynamic loss scale: x is an overflow, . a clean update.
import { describe, expect, test } from "vitest";
import type { LossScaleConfig } from "../../src/config/types.ts";
import { LossScaler } from "../../src/zero/loss-scale.ts";

type Dynamic = Extract<LossScaleConfig, { kind: "dynamic" }>;
const dynamic = (more: Partial<Dynamic> = {}): Dynamic => ({
  kind: "dynamic",
  initialScale: 256,
  window: 2,
  hysteresis: 2,
  consecutiveHysteresis: false,
  minScale: 1,
  ...more,
});

/** Scale and hysteresis left after each update; "stop" where an overflow finds the scale at its minimum. */
function trace(config: LossScaleConfig, updates: string): (readonly [number, number] | "stop")[] {
  const scaler = new LossScaler(config);
  return [...updates].map((update) => {
    if (update === "x" && scaler.isExhausted) return "stop";
    scaler.update(update === "x");
    return [scaler.state.scale, scaler.state.hysteresisLeft] as const;
  });
}
const scales = (config: LossScaleConfig, updates: string): unknown[] =>
  trace(config, updates).map((t) => (t === "stop" ? t : t[0]));

describe("the dynamic scale", () => {
  test("doubles after each window, the first time one update later", () => {
    const wanted = [256, 256, 512, 512, 1024, 1024, 2048, 2048, 4096, 4096].map((s) => [s, 2]);
    expect(trace(dynamic(), "..........")).toEqual(wanted);
  });

  test("without hysteresis every overflow halves it", () => {
    expect(scales(dynamic({ hysteresis: 1 }), "xx...x")).toEqual([128, 64, 64, 64, 128, 64]);
  });

  test.each([
    ["xx...x", [256, 1, 128, 1, 128, 1, 128, 1, 256, 2, 256, 1]],
    ["xxx..x", [256, 1, 128, 1, 64, 1, 64, 1, 64, 1, 32, 1]],
    ["x.x.x.", [256, 1, 256, 1, 128, 1, 128, 1, 64, 1, 64, 1]],
    ["x....x..x", [256, 1, 256, 1, 256, 1, 512, 2, 512, 2, 512, 1, 512, 1, 512, 1, 256, 1]],
  ])("hysteresis 2: %s", (updates, wanted) => {
    expect(trace(dynamic(), updates).flat()).toEqual(wanted);
  });

  test("consecutive hysteresis forgives overflows that stand alone", () => {
    const wanted = [1, 2, 1, 2, 1, 2, 1].map((left) => [256, left]);
    expect(trace(dynamic({ consecutiveHysteresis: true }), "x.x.x.x")).toEqual(wanted);
  });

  test("stops at its minimum", () => {
    expect(scales(dynamic({ hysteresis: 1 }), "xxxxxxxxx")).toEqual([128, 64, 32, 16, 8, 4, 2, 1, "stop"]);
    expect(scales(dynamic(), "xxxxxxxxxx")).toEqual([256, 128, 64, 32, 16, 8, 4, 2, 1, "stop"]);
    expect(scales(dynamic({ initialScale: 16, minScale: 2, hysteresis: 1 }), "xxxx")).toEqual([8, 4, 2, "stop"]);
  });

  test("with DeepSpeed's defaults the first doubling is at update 1001", () => {
    const all = scales(dynamic({ initialScale: 65536, window: 1000 }), ".".repeat(1003));
    expect(all.slice(0, 1000)).toEqual(Array(1000).fill(65536));
    expect(all.slice(1000)).toEqual([131072, 131072, 131072]);
  });

  test("goes on from a state as if it had never stopped", () => {
    const updates = "x....x..x.....x";
    const first = new LossScaler(dynamic());
    for (const u of updates.slice(0, 7)) first.update(u === "x");
    const second = new LossScaler(dynamic(), first.state);
    for (const u of updates.slice(7)) second.update(u === "x");
    const whole = new LossScaler(dynamic());
    for (const u of updates) whole.update(u === "x");
    expect(second.state).toEqual(whole.state);
  });
});

test("a static scale, and none at all, never change", () => {
  expect(scales({ kind: "static", scale: 128 }, "xx..")).toEqual([128, 128, 128, 128]);
  expect(new LossScaler(undefined).scale).toBe(1);
});
