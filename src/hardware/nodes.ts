/** The node that each card usually sits in. Real nodes differ: every value can be given instead. */
import type { DeviceName } from "./devices.ts";
import type { DriveName } from "./drives.ts";
import { type Figure, figure, gib } from "./figure.ts";
import type { LinkName } from "./links.ts";

export interface NodePreset {
  readonly cards: number;
  readonly peerLink: LinkName;
  /** Cards behind one link to the host, which share it when all of them copy. */
  readonly cardsPerHostLink: number;
  readonly network: LinkName;
  readonly adapters: number;
  readonly hostMemoryBytes: number;
  /** Of the memory's channels, in bytes per second. */
  readonly hostMemoryRate: Figure;
  readonly drive: DriveName;
  readonly drives: number;
  readonly driveBytes: number;
  readonly source: string;
}

/** The share of host memory that is left for training. */
export const hostMemoryShare = figure(0.95, "an assumption: system and files of the process take a twentieth");

/** The share of the channels' rate that an optimizer reaches which streams through host memory. */
export const hostMemoryRateShare = figure(
  0.47,
  "ZeRO-Offload's CPU-Adam: 0.25 s for 1e9 parameters of 30 bytes each, 120 GB/s of 256 GB/s",
);

/** @param megatransfers per second and channel of 8 bytes */
const channels = (count: number, kind: "DDR4" | "DDR5", megatransfers: number): Figure =>
  figure(count * megatransfers * 8e6, `${count} channels of ${kind}-${megatransfers}`);

const hgxA100 = {
  cards: 8,
  peerLink: "NVLink 3",
  cardsPerHostLink: 2,
  network: "InfiniBand HDR 200",
  adapters: 8,
  hostMemoryRate: channels(16, "DDR4", 3200),
  drive: "NVMe PCIe 4",
  driveBytes: 3.84e12,
  source: "NVIDIA DGX A100 data sheet; two cards behind each PCIe switch",
} as const;

const hgxHopper = {
  cards: 8,
  peerLink: "NVLink 4",
  cardsPerHostLink: 1,
  network: "InfiniBand NDR 400",
  adapters: 8,
  hostMemoryBytes: 2048 * gib,
  hostMemoryRate: channels(16, "DDR5", 4800),
  drive: "NVMe PCIe 4",
  drives: 8,
  driveBytes: 3.84e12,
} as const;

const workstation = {
  cards: 4,
  peerLink: "PCIe 4 x16",
  cardsPerHostLink: 1,
  adapters: 1,
  hostMemoryRate: channels(8, "DDR4", 3200),
  drive: "NVMe PCIe 4",
  drives: 1,
} as const;

const consumer = {
  ...workstation,
  network: "10 Gbit Ethernet",
  hostMemoryBytes: 256 * gib,
  driveBytes: 2e12,
  source: "a usual workstation of 4 cards",
} as const;

export const nodes: Readonly<Record<DeviceName, NodePreset>> = {
  A10G: {
    ...workstation,
    network: "100 Gbit Ethernet",
    hostMemoryBytes: 192 * gib,
    driveBytes: 3.8e12,
    source: "cloud nodes of 4 cards",
  },
  "A100-40GB": { ...hgxA100, hostMemoryBytes: 1024 * gib, drives: 4 },
  "A100-80GB": { ...hgxA100, hostMemoryBytes: 2048 * gib, drives: 8 },
  H100: { ...hgxHopper, source: "NVIDIA DGX H100 data sheet" },
  "H100-PCIe": {
    ...workstation,
    peerLink: "PCIe 5 x16",
    network: "100 Gbit Ethernet",
    hostMemoryBytes: 1024 * gib,
    hostMemoryRate: channels(16, "DDR5", 4800),
    drive: "NVMe PCIe 5",
    drives: 2,
    driveBytes: 3.84e12,
    source: "a usual server of 4 cards",
  },
  H200: { ...hgxHopper, source: "NVIDIA DGX H200 data sheet" },
  L4: {
    ...workstation,
    network: "25 Gbit Ethernet",
    hostMemoryBytes: 192 * gib,
    drives: 4,
    driveBytes: 0.94e12,
    source: "cloud nodes of 4 cards",
  },
  T4: {
    ...workstation,
    peerLink: "PCIe 3 x16",
    network: "25 Gbit Ethernet",
    hostMemoryBytes: 192 * gib,
    hostMemoryRate: channels(6, "DDR4", 2933),
    drive: "NVMe PCIe 3",
    driveBytes: 0.9e12,
    source: "cloud nodes of 4 cards",
  },
  "V100-16GB": {
    cards: 8,
    peerLink: "NVLink 2",
    cardsPerHostLink: 2,
    network: "InfiniBand EDR 100",
    adapters: 4,
    hostMemoryBytes: 512 * gib,
    hostMemoryRate: channels(8, "DDR4", 2400),
    drive: "NVMe PCIe 3",
    drives: 2,
    driveBytes: 0.9e12,
    source: "NVIDIA DGX-1 data sheet; drives as in cloud nodes of 8 cards",
  },
  "V100-32GB": {
    cards: 16,
    peerLink: "NVLink 2",
    cardsPerHostLink: 4,
    network: "InfiniBand EDR 100",
    adapters: 8,
    hostMemoryBytes: 1536 * gib,
    hostMemoryRate: channels(12, "DDR4", 2666),
    drive: "NVMe PCIe 3",
    drives: 8,
    driveBytes: 3.84e12,
    source: "NVIDIA DGX-2 data sheet; 3 GB/s to the host with all 16 copying (ZeRO-Infinity)",
  },
  "RTX 4090": consumer,
  "RTX 3090": consumer,
  A6000: {
    ...workstation,
    network: "25 Gbit Ethernet",
    hostMemoryBytes: 512 * gib,
    driveBytes: 3.84e12,
    source: "a usual workstation of 4 cards",
  },
  A40: {
    ...workstation,
    network: "100 Gbit Ethernet",
    hostMemoryBytes: 512 * gib,
    hostMemoryRate: channels(16, "DDR4", 3200),
    driveBytes: 3.84e12,
    source: "a usual server of 4 cards",
  },
};
