/** From the name of a card to a machine: the node that it usually sits in, with whatever is given instead. */
import type { ElementType } from "../config/types.ts";
import { UsageError } from "../errors/errors.ts";
import { type DevicePreset, devices, launchSeconds, reachedMemoryShare, reachedShare, usableBytes } from "./devices.ts";
import { driveNamed } from "./drives.ts";
import { linkNamed } from "./links.ts";
import type { Drive, Host, Link, Machine, Processor } from "./machine.ts";
import { findPreset } from "./names.ts";
import { hostMemoryRateShare, hostMemoryShare, type NodePreset, nodes } from "./nodes.ts";
import {
  countedText,
  type GivenLink,
  givenDrive,
  givenLink,
  givenNetwork,
  usualDrive,
  usualLink,
} from "./overrides.ts";

/** What is given instead of a preset's value. */
export interface MachineOverrides {
  /** Usable bytes of each card, taken as they are. */
  readonly deviceMemoryBytes?: number | undefined;
  /** Usable bytes of a node's host. */
  readonly hostMemoryBytes?: number | undefined;
  /** Free bytes of a node's drives. */
  readonly diskBytes?: number | undefined;
  /** Each card's own: "NVLink 3", "20GB/s", "NVLink 3 @ 200GB/s". */
  readonly peerLink?: string | undefined;
  /** Each card's own, also with all of them copying. */
  readonly hostLink?: string | undefined;
  /** A node's adapters: "100 Gbit Ethernet", "8x InfiniBand HDR 200", "40Gbit/s". */
  readonly networkLink?: string | undefined;
  /** A node's drives: "NVMe PCIe 4", "4x NVMe PCIe 4", "5GB/s". */
  readonly drive?: string | undefined;
  /** What products and attention reach, in operations per second, in every element type. */
  readonly flops?: number | undefined;
}

export interface MachineRequest {
  readonly device: string;
  /** Left out: all cards of the usual node. */
  readonly ranksPerNode?: number | undefined;
  readonly overrides?: MachineOverrides | undefined;
}

/** More cards than any node has that presets speak of. */
const mostRanksPerNode = 16;

/** @throws UsageError for a name that is not known (with the nearest), and for the name of a family ("A100": of 40 or 80 GB) */
export const deviceNamed = (text: string): DevicePreset => findPreset("device", text, devices);

/** @throws UsageError for names that are not known, numbers that are none, and rates that a link cannot carry */
export function machineOf({ device, ranksPerNode, overrides = {} }: MachineRequest): Machine {
  const preset = deviceNamed(device);
  const node = nodes[preset.name];
  const ranks = ranksPerNode ?? node.cards;
  if (!Number.isInteger(ranks) || ranks < 1 || ranks > mostRanksPerNode)
    throw new UsageError(`ranks per node: found ${ranks}; wanted a whole number from 1 to ${mostRanksPerNode}`);
  const peer = peerLinkOf(node, overrides);
  return {
    name: ranks === 1 ? preset.name : `${ranks} × ${preset.name}`,
    ranksPerNode: ranks,
    threads: 1,
    processor: processorOf(preset, overrides),
    peerLink: linkOf(peer),
    networkLink: networkLinkOf(node, ranks, overrides),
    hostLink: hostLinkOf(preset, node, ranks, overrides),
    host: hostOf(node, overrides),
    drive: driveOf(node, overrides),
    shared: peer.kind === "PCIe" ? ["hostLink"] : [],
  };
}

/** "8 cards on PCIe 4 x16, NVLink 3 between them; InfiniBand HDR 200 between nodes". */
export function topologyOf({ ranksPerNode, hostLink, peerLink, networkLink, shared }: Machine): string {
  const cards = `${ranksPerNode} ${ranksPerNode === 1 ? "card" : "cards"} on ${hostLink.name}`;
  const peers = shared.includes("hostLink") ? "no NVLink" : `${peerLink.name} between them`;
  return `${cards}${ranksPerNode === 1 ? "" : `, ${peers}`}; ${networkLink.name} between nodes`;
}

function processorOf(preset: DevicePreset, { deviceMemoryBytes, flops }: MachineOverrides): Processor {
  const share = reachedShare[preset.generation].value;
  const given = positive("operations per second", flops);
  const reached = (type: ElementType): number => given ?? share * preset.peak[type].value;
  const rates = { fp32: reached("fp32"), bf16: reached("bf16"), fp16: reached("fp16") };
  return {
    name: preset.name,
    usableBytes: positive("device memory", deviceMemoryBytes) ?? usableBytes(preset),
    productsPerSecond: rates,
    attentionPerSecond: rates,
    droppedAttentionPerSecond: rates,
    memoryBytesPerSecond: reachedMemoryShare.value * preset.memoryRate.value,
    opBytesPerSecond: {},
    launchSeconds: launchSeconds.value,
  };
}

function peerLinkOf(node: NodePreset, { peerLink }: MachineOverrides): GivenLink {
  const present = linkNamed(node.peerLink);
  return peerLink === undefined ? usualLink(present) : givenLink("peer link", peerLink, ["PCIe", "NVLink"], present);
}

/** Cards behind one link share it; what is given is each card's own. */
function hostLinkOf(preset: DevicePreset, node: NodePreset, ranks: number, { hostLink }: MachineOverrides): Link {
  const present = linkNamed(preset.hostLink);
  if (hostLink !== undefined) return linkOf(givenLink("host link", hostLink, ["PCIe"], present));
  const sharers = Math.min(ranks, node.cardsPerHostLink);
  const link = linkOf(usualLink(present));
  if (sharers === 1) return link;
  return { ...link, name: `${link.name} shared by ${sharers}`, bytesPerSecond: link.bytesPerSecond / sharers };
}

/** A rank's share of the adapters, and at most one of them. */
function networkLinkOf(node: NodePreset, ranks: number, { networkLink }: MachineOverrides): Link {
  const present = linkNamed(node.network);
  const given = networkLink === undefined ? undefined : countedText("network link", networkLink);
  const link = linkOf(given === undefined ? usualLink(present) : givenNetwork(given.text, present));
  const adapters = given?.count ?? node.adapters;
  return {
    ...link,
    name: adapters === 1 ? link.name : `${adapters} × ${link.name}`,
    bytesPerSecond: link.bytesPerSecond * Math.min(1, adapters / ranks),
  };
}

function hostOf({ hostMemoryBytes, hostMemoryRate }: NodePreset, overrides: MachineOverrides): Host {
  return {
    usableBytes: positive("host memory", overrides.hostMemoryBytes) ?? hostMemoryShare.value * hostMemoryBytes,
    memoryBytesPerSecond: hostMemoryRateShare.value * hostMemoryRate.value,
  };
}

function driveOf(node: NodePreset, { drive, diskBytes }: MachineOverrides): Drive {
  const given = drive === undefined ? undefined : countedText("drive", drive);
  const { name, rates } = given === undefined ? usualDrive(driveNamed(node.drive)) : givenDrive(given.text);
  const count = given?.count ?? node.drives;
  return {
    name: count === 1 ? name : `${count} × ${name}`,
    freeBytes: positive("disk", diskBytes) ?? count * node.driveBytes,
    readBytesPerSecond: count * rates.read,
    writeBytesPerSecond: count * rates.write,
    mixedBytesPerSecond: count * rates.mixed,
  };
}

const linkOf = ({ name, bytesPerSecond, latencySeconds }: GivenLink): Link => ({
  name,
  bytesPerSecond,
  latencySeconds,
});

function positive(what: string, value: number | undefined): number | undefined {
  if (value === undefined || (Number.isFinite(value) && value > 0)) return value;
  throw new UsageError(`${what}: found ${value}; wanted a number above 0`);
}
