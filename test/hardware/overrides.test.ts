import { expect, test } from "vitest";
import { type MachineOverrides, machineOf, topologyOf } from "../../src/hardware/presets.ts";
import { readRate } from "../../src/hardware/rate.ts";

const a10g = (overrides: MachineOverrides, ranksPerNode?: number) =>
  machineOf({ device: "A10G", ranksPerNode, overrides });
const refusal = (overrides: MachineOverrides, device = "A10G"): string => {
  try {
    machineOf({ device, overrides });
  } catch (error) {
    return String(error);
  }
  return "nothing was thrown";
};

test("memory that is given is usable as it is", () => {
  const machine = a10g({ deviceMemoryBytes: 24e9, hostMemoryBytes: 94e9, diskBytes: 1e12 });
  expect(machine.processor.usableBytes).toBe(24e9);
  expect(machine.host.usableBytes).toBe(94e9);
  expect(machine.drive.freeBytes).toBe(1e12);
});

test("operations per second hold for products and attention in every type", () => {
  const { productsPerSecond, attentionPerSecond } = a10g({ flops: 150e12 }).processor;
  expect(productsPerSecond).toEqual({ fp32: 150e12, bf16: 150e12, fp16: 150e12 });
  expect(attentionPerSecond.bf16).toBe(150e12);
});

test.each(["deviceMemoryBytes", "hostMemoryBytes", "diskBytes", "flops"] as const)("%s must be above 0", (key) => {
  for (const value of [0, -1, Number.NaN, Number.POSITIVE_INFINITY])
    expect(refusal({ [key]: value })).toContain("wanted a number above 0");
});

test("links by name, by rate and by both", () => {
  expect(a10g({ hostLink: "pcie3x16" }).hostLink).toMatchObject({ name: "PCIe 3 x16", bytesPerSecond: 12e9 });
  expect(a10g({ hostLink: "20GB/s" }).hostLink).toMatchObject({ name: "PCIe 4 x16 at 20 GB/s", bytesPerSecond: 20e9 });
  expect(a10g({ hostLink: "PCIe gen3 x8 @ 6.5 GB/s" }).hostLink).toMatchObject({ bytesPerSecond: 6.5e9 });
});

test("a host link that is given is each card's own", () => {
  expect(machineOf({ device: "A100-40GB", overrides: { hostLink: "25GB/s" } }).hostLink.bytesPerSecond).toBe(25e9);
});

test("peers on NVLink do not take the way of copies to the host", () => {
  const machine = a10g({ peerLink: "nvlink bridge" });
  expect(machine.shared).toEqual([]);
  expect(topologyOf(machine)).toContain("NVLink bridge between them");
  expect(machineOf({ device: "H100", overrides: { peerLink: "pcie5x16" } }).shared).toEqual(["hostLink"]);
});

test("a node's ranks share its adapters", () => {
  expect(a10g({ networkLink: "40Gbit/s" }).networkLink).toMatchObject({
    name: "network of 5 GB/s",
    bytesPerSecond: 1.25e9,
  });
  expect(a10g({ networkLink: "HDR" }).networkLink.bytesPerSecond).toBe(5.75e9);
  expect(a10g({ networkLink: "4x HDR" }).networkLink).toMatchObject({
    name: "4 × InfiniBand HDR 200",
    bytesPerSecond: 23e9,
  });
  expect(a10g({ networkLink: "8x HDR" }).networkLink.bytesPerSecond).toBe(23e9);
  expect(a10g({ networkLink: "40Gbit/s" }, 1).networkLink.bytesPerSecond).toBe(5e9);
});

test("drives by name, number and rate", () => {
  expect(a10g({ drive: "2x nvme 5" }).drive).toMatchObject({
    name: "2 × NVMe PCIe 5",
    readBytesPerSecond: 22.4e9,
    freeBytes: 7.6e12,
  });
  expect(a10g({ drive: "2GB/s" }).drive).toMatchObject({
    readBytesPerSecond: 2e9,
    writeBytesPerSecond: 2e9,
    mixedBytesPerSecond: 2e9,
  });
});

test("a rate that a link cannot carry is refused by name", () => {
  expect(refusal({ hostLink: "PCIe 3 x8 @ 12GB/s" })).toBe(
    "UsageError: host link: PCIe 3 x8 peaks at 7.88 GB/s in one direction, so it cannot carry 12 GB/s: that is a figure of " +
      "PCIe 3 x16 (15.8 GB/s). Give at most 7.88 GB/s, or name another link (docs/hardware.md lists all)",
  );
  expect(refusal({ hostLink: "40GB/s" })).toContain(
    "PCIe 4 x16 peaks at 31.5 GB/s in one direction, so it cannot carry 40 GB/s; the slowest that does is PCIe 5 x16 (63 GB/s)",
  );
  expect(refusal({ hostLink: "PCIe 3 x8 @ 20GB/s" })).not.toContain("figure of");
  expect(refusal({ peerLink: "900GB/s" }, "H100")).toContain("NVLink 4 peaks at 450 GB/s");
  expect(refusal({ networkLink: "10 Gbit Ethernet @ 2GB/s" })).toContain("10 Gbit Ethernet peaks at 1.25 GB/s");
});

test("what is no link, drive, rate or number of them is refused", () => {
  expect(refusal({ hostLink: "nvlink 3" })).toContain('host link "nvlink 3" is not known');
  expect(refusal({ hostLink: "pcie3x61" })).toContain("nearest names are PCIe 3 x16");
  expect(refusal({ peerLink: "NVLink 3 @ fast" })).toContain('found "fast"; wanted a rate above 0 such as 25GB/s');
  expect(refusal({ drive: "floppy" })).toContain('drive "floppy" is not known');
  expect(refusal({ drive: "0x nvme 4" })).toContain("wanted from 1 to 64");
  expect(refusal({ networkLink: "0Gbit/s" })).toContain("is not known");
});

test.each([
  ["25GB/s", 25e9],
  ["25 GB/s", 25e9],
  ["200Gbit/s", 25e9],
  ["100Gbps", 12.5e9],
  ["1.5GiB/s", 1_610_612_736],
  ["500MB/s", 5e8],
])("%s is %s bytes per second", (text, rate) => {
  expect(readRate(text)).toBe(rate);
});

test.each(["25Gb/s", "25gb/s", "25", "GB/s", "-1GB/s", "0GB/s", "NaN", "1e400GB/s", ""])('"%s" is no rate', (text) => {
  expect(readRate(text)).toBeUndefined();
});
