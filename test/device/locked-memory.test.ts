// Page-locked host memory: what is counted is what the system says, and a refusal costs nothing but a word.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { CpuBackend } from "../../src/device/cpu.ts";
import { Device } from "../../src/device/device.ts";
import { LockedMemory, lockLimitBytes, lockNotices } from "../../src/device/locked-memory.ts";

const kinds = new Set(["master", "staging"] as const);

test("pages of wanted kinds are locked once, however often their memory is used again", () => {
  const asked: [number, number][] = [];
  const memory = new LockedMemory(kinds, (offset, bytes) => asked.push([offset, bytes]) > 0);
  memory.add("master", 256, 4096);
  memory.add("gradients", 100_000, 4096);
  memory.add("staging", 4096, 4096);
  memory.add("master", 8192, 1);
  memory.add("master", 40_960, 0);
  memory.add("staging", 20_480, 8192);
  expect(asked).toEqual([
    [0, 8192],
    [8192, 4096],
    [20_480, 8192],
  ]);
  expect(memory).toMatchObject({ lockedBytes: 20_480, refusedBytes: 0 });
  expect(lockNotices(memory)).toEqual([]);
});

test("after a refusal nothing more is asked for, and it is said once with the limit", () => {
  let calls = 0;
  const memory = new LockedMemory(kinds, () => ++calls < 2);
  for (const offset of [0, 8192, 16_384]) memory.add("master", offset, 4096);
  expect(calls).toBe(2);
  expect(memory).toMatchObject({ lockedBytes: 4096, refusedBytes: 8192 });
  const limit = lockLimitBytes();
  expect(lockNotices(memory)).toEqual([
    expect.stringMatching(/^pin_memory: 8192 bytes of host memory are not page-locked and 4096 are: .*ulimit -l/),
  ]);
  if (limit !== undefined) expect(lockNotices(memory)[0]).toContain(`may lock ${limit} bytes`);
});

/** What the system counts as locked for this process. */
function systemLockedBytes(): number | undefined {
  try {
    return 1024 * Number(/^VmLck:\s+(\d+) kB/m.exec(readFileSync("/proc/self/status", "utf8"))![1]);
  } catch {
    return undefined;
  }
}

test("the count is the system's own", (context) => {
  const before = systemLockedBytes();
  if (before === undefined) return context.skip("this system does not say how much a process has locked");
  using device = new Device({ backend: new CpuBackend({ threads: 1, arenaBytes: 2 ** 30 }), arenaBytes: 2 ** 30 });
  device.lockHost(kinds);
  const wantedBytes = 3 * 2 ** 20;
  device.allocate("gradients", 2 ** 20, "update", "host");
  const freed = device.allocate("staging", wantedBytes, "update", "host");
  device.allocate("master", wantedBytes, "update", "host");
  device.allocate("master", wantedBytes, "compute", "device");
  device.free(freed, "update");
  device.allocate("staging", wantedBytes, "update", "host");
  const { lockedBytes, refusedBytes } = device.locked;
  if (refusedBytes > 0) context.skip(`this system lets a process lock ${lockLimitBytes()} bytes only`);
  expect(lockedBytes).toBeGreaterThanOrEqual(2 * wantedBytes);
  expect(lockedBytes).toBeLessThan(2 * wantedBytes * 1.02);
  expect(Math.abs(systemLockedBytes()! - before - lockedBytes)).toBeLessThanOrEqual(0.02 * lockedBytes);
});
