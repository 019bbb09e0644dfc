import { describe, expect, test } from "vitest";
import { devices, usableBytes } from "../../src/hardware/devices.ts";
import { links } from "../../src/hardware/links.ts";
import { deviceNamed, machineOf, topologyOf } from "../../src/hardware/presets.ts";

const messageOf = (run: () => unknown): string => {
  try {
    run();
  } catch (error) {
    return String(error);
  }
  return "nothing was thrown";
};

describe("cards", () => {
  test("a card of 24 GB reports 23,028 MiB and leaves less", () => {
    const card = deviceNamed("A10G");
    expect(card.nominal.value).toBe(25_769_803_776);
    expect(card.reported.value).toBe(24_146_608_128);
    expect(usableBytes(card)).toBeCloseTo(22_076_131_901, -1);
  });

  test.each(devices.map((device) => [device.name, device] as const))(
    "%s: each number is less than the one before it",
    (_, device) => {
      const { nominal, reported, addressable } = device;
      expect(reported.value).toBeLessThanOrEqual(nominal.value);
      expect(addressable.value).toBeLessThan(reported.value);
      expect(usableBytes(device)).toBeLessThan(addressable.value);
      expect(usableBytes(device)).toBeGreaterThan(0.8 * nominal.value);
    },
  );

  test.each([
    ["A100-40GB", 312e12, 312e12, 19.5e12],
    ["H100", 989.4e12, 989.4e12, 66.9e12],
    ["A10G", 70e12, 70e12, 35e12],
    ["V100-32GB", 125e12, 15.7e12, 15.7e12],
    ["T4", 65e12, 8.1e12, 8.1e12],
  ])("%s has the peaks of its data sheet; bf16 that is not in hardware runs as fp32", (name, fp16, bf16, fp32) => {
    const { peak } = deviceNamed(name);
    expect([peak.fp16.value, peak.bf16.value, peak.fp32.value]).toEqual([fp16, bf16, fp32]);
    expect(peak.bf16.source.includes("not in hardware")).toBe(bf16 === fp32);
  });

  test.each([
    ["a100 40gb", "A100-40GB"],
    ["A100-SXM4-80GB", "A100-80GB"],
    ["NVIDIA A10G", "A10G"],
    ["rtx4090", "RTX 4090"],
    ["NVIDIA GeForce RTX 4090", "RTX 4090"],
    ["h100 pcie", "H100-PCIe"],
    ["NVIDIA H100 80GB HBM3", "H100"],
    ["tesla-v100-sxm2-16gb", "V100-16GB"],
  ])('"%s" is %s', (text, name) => {
    expect(deviceNamed(text).name).toBe(name);
  });

  test("a name of two cards is refused with both", () => {
    expect(messageOf(() => deviceNamed("A100"))).toBe(
      'UsageError: device "A100": say which one: A100-40GB or A100-80GB',
    );
    expect(messageOf(() => deviceNamed("v100"))).toContain("V100-16GB or V100-32GB");
    expect(deviceNamed("h100").name).toBe("H100");
  });

  test("an unknown name is answered with the nearest", () => {
    expect(messageOf(() => deviceNamed("A10"))).toContain('device "A10" is not known; the nearest names are A10G, ');
    expect(messageOf(() => deviceNamed("RTX 4080"))).toContain("nearest names are RTX 4090, ");
    expect(messageOf(() => deviceNamed("h20"))).toContain("H200");
    expect(messageOf(() => deviceNamed("x".repeat(5000)))).toContain("is not known");
    expect(messageOf(() => deviceNamed(""))).toContain("is not known");
  });
});

describe("nodes", () => {
  test("an A10G sits with three others on PCIe", () => {
    const machine = machineOf({ device: "A10G" });
    expect(machine).toMatchObject({ name: "4 × A10G", ranksPerNode: 4, shared: ["hostLink"] });
    expect(machine.hostLink).toEqual({ name: "PCIe 4 x16", bytesPerSecond: 25e9, latencySeconds: 1e-5 });
    expect(machine.peerLink.bytesPerSecond).toBe(25e9);
    // 4 cards share one adapter of 12.5 GB/s, 88 % of it.
    expect(machine.networkLink.bytesPerSecond).toBe(2.75e9);
    expect(topologyOf(machine)).toBe("4 cards on PCIe 4 x16, no NVLink; 100 Gbit Ethernet between nodes");
  });

  test("cards behind one link to the host share it, but for one that is alone", () => {
    expect(machineOf({ device: "V100-32GB" }).hostLink.bytesPerSecond).toBe(3e9);
    expect(machineOf({ device: "V100-32GB", ranksPerNode: 1 }).hostLink.bytesPerSecond).toBe(12e9);
    expect(machineOf({ device: "A100-80GB" }).hostLink).toMatchObject({
      name: "PCIe 4 x16 shared by 2",
      bytesPerSecond: 12.5e9,
    });
    expect(machineOf({ device: "A100-80GB", ranksPerNode: 1 }).hostLink.bytesPerSecond).toBe(25e9);
  });

  test("an H100 has NVLink and an adapter of its own", () => {
    const machine = machineOf({ device: "h100" });
    expect(machine.shared).toEqual([]);
    expect(machine.peerLink).toMatchObject({ name: "NVLink 4", bytesPerSecond: 360e9 });
    expect(machine.networkLink.bytesPerSecond).toBe(46e9);
    expect(machineOf({ device: "h100", ranksPerNode: 2 }).networkLink.bytesPerSecond).toBe(46e9);
    expect(machine.processor.productsPerSecond.bf16).toBeCloseTo(455.124e12, -9);
  });

  test("the host of a DGX-2 updates 1e9 parameters of 30 bytes in a quarter of a second", () => {
    expect(30e9 / machineOf({ device: "V100-32GB" }).host.memoryBytesPerSecond).toBeCloseTo(0.25, 2);
  });

  test.each(devices.map(({ name }) => name))("%s has a node whose rates are all above 0", (device) => {
    const { host, drive, processor, peerLink, networkLink, hostLink } = machineOf({ device });
    const rates = [
      host.usableBytes,
      host.memoryBytesPerSecond,
      drive.freeBytes,
      drive.readBytesPerSecond,
      drive.mixedBytesPerSecond,
      processor.memoryBytesPerSecond,
      ...[peerLink, networkLink, hostLink].flatMap((link) => [link.bytesPerSecond, link.latencySeconds]),
    ];
    expect(rates.filter((rate) => !(rate > 0))).toEqual([]);
    expect(drive.mixedBytesPerSecond).toBeGreaterThan(drive.writeBytesPerSecond);
    expect(drive.mixedBytesPerSecond).toBeLessThan(drive.readBytesPerSecond);
  });

  test.each([0, -1, 1.5, Number.NaN, 17])("%s ranks per node are refused", (ranksPerNode) => {
    expect(messageOf(() => machineOf({ device: "A10G", ranksPerNode }))).toContain(
      `ranks per node: found ${ranksPerNode}; wanted a whole number from 1 to 16`,
    );
  });
});

test.each([
  ["PCIe 3 x8", 7.88, 6],
  ["PCIe 3 x16", 15.75, 12],
  ["PCIe 4 x16", 31.51, 25],
  ["PCIe 5 x8", 31.51, 25],
  ["PCIe 5 x16", 63.02, 50],
  ["NVLink 2", 150, 120],
  ["NVLink 3", 300, 235],
  ["NVLink 4", 450, 360],
  ["10 Gbit Ethernet", 1.25, 1.1],
  ["InfiniBand EDR 100", 12.5, 11.5],
  ["InfiniBand NDR 400", 50, 46],
])("%s peaks at %s GB/s and reaches %s", (name, peak, usable) => {
  const link = links.find((l) => l.name === name)!;
  expect(link.nominal.value / 1e9).toBeCloseTo(peak, 2);
  expect(link.usable.value / 1e9).toBeCloseTo(usable, 6);
  expect(link.usable.value).toBeLessThan(link.nominal.value);
});
