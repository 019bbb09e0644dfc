/** The machine that a plan is about: a node of a known card, a card of which only the memory is known, or this machine. */
import { statfsSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { UsageError } from "../errors/errors.ts";
import { type Calibration, machineOfCalibration } from "../hardware/calibration.ts";
import type { Machine } from "../hardware/machine.ts";
import { deviceNamed, machineOf, topologyOf } from "../hardware/presets.ts";
import { defaultThreads } from "../launch/environment.ts";
import type { RankRoom } from "../planner/fit.ts";
import { formatBytes } from "../report/numbers.ts";
import { calibrationFile, guessCalibration, readCalibration } from "./calibrate.ts";
import { machineShareBytes } from "./room.ts";

export interface MachineFlags {
  readonly device?: string | undefined;
  readonly ranksPerNode?: number | undefined;
  readonly deviceMemory?: number | undefined;
  readonly hostMemory?: number | undefined;
  readonly disk?: number | undefined;
  readonly peerLink?: string | undefined;
  readonly hostLink?: string | undefined;
  readonly networkLink?: string | undefined;
  readonly drive?: string | undefined;
  readonly flops?: number | undefined;
  /** A calibration file. */
  readonly machine?: string | undefined;
}

export interface PlannedMachine {
  /** "A10G", "this machine". */
  readonly name: string;
  /** Its parts and what is known of them, a line each. */
  readonly words: readonly string[];
  /** Undefined: only the memory of a card is known, and no times are. */
  readonly machineOf: ((ranks: number) => Machine) | undefined;
  readonly roomOf: (ranks: number) => RankRoom;
  /** Of a rank. */
  readonly threadsOf: (ranks: number) => number;
  readonly isThisMachine: boolean;
  /** bf16 is computed in hardware. */
  readonly hasBf16: boolean;
  /** Peak floating-point operations per second of one device in 16 bit, for a utilisation; undefined: not known. */
  readonly peakPerSecond: number | undefined;
}

/** @throws UsageError for what is not known, cannot be, or contradicts itself */
export function plannedMachine(flags: MachineFlags): PlannedMachine {
  const { device, deviceMemory, machine } = flags;
  if (machine !== undefined && device !== undefined && device !== "cpu")
    throw new UsageError(`--machine and --device ${device}: ${machine} is a machine of its own; leave one of them out`);
  if (device !== undefined && device !== "cpu") return cardMachine(device, flags);
  checkPartsOfCards(flags);
  if (deviceMemory !== undefined && device === undefined && machine === undefined)
    return memoryAlone(deviceMemory, flags);
  return thisMachine(flags);
}

/** @throws UsageError for a part that no time is calculated from here */
function checkPartsOfCards({ peerLink, hostLink, networkLink, drive, flops }: MachineFlags): void {
  const parts = { "peer-link": peerLink, "host-link": hostLink, "network-link": networkLink, drive, flops };
  const [given] = Object.entries(parts).find(([, value]) => value !== undefined) ?? [];
  if (given !== undefined)
    throw new UsageError(`--${given} is a part of a node of cards; name the card with --device, such as A10G`);
}

function cardMachine(device: string, flags: MachineFlags): PlannedMachine {
  const preset = deviceNamed(device);
  const machine = machineOf({
    device,
    ranksPerNode: flags.ranksPerNode,
    overrides: {
      deviceMemoryBytes: flags.deviceMemory,
      hostMemoryBytes: flags.hostMemory,
      diskBytes: flags.disk,
      peerLink: flags.peerLink,
      hostLink: flags.hostLink,
      networkLink: flags.networkLink,
      drive: flags.drive,
      flops: flags.flops,
    },
  });
  const { processor, host, drive } = machine;
  const given = flags.deviceMemory === undefined ? "usable" : "as given";
  return {
    name: preset.name,
    words: [
      `${preset.name}: ${formatBytes(preset.nominal.value)} on the label, ${formatBytes(preset.reported.value)} reported, ` +
        `${formatBytes(processor.usableBytes)} ${given}`,
      `node: ${topologyOf(machine)}; ${formatBytes(host.usableBytes)} of host memory, ${formatBytes(drive.freeBytes)} on ${drive.name}`,
    ],
    machineOf: (ranks) => within(machine, ranks),
    roomOf: (ranks) => nodeRoom(machine, ranks),
    threadsOf: () => 1,
    isThisMachine: false,
    hasBf16: preset.generation !== "Volta" && preset.generation !== "Turing",
    peakPerSecond: preset.peak.fp16.value,
  };
}

/** @throws UsageError for nodes that some ranks leave unfilled */
function within(machine: Machine, ranks: number): Machine {
  if (ranks > machine.ranksPerNode && ranks % machine.ranksPerNode !== 0)
    throw new UsageError(
      `--ranks ${ranks} does not fill nodes of ${machine.ranksPerNode}; wanted a multiple of it, at most ` +
        `${machine.ranksPerNode} ranks, or another --ranks-per-node`,
    );
  return machine;
}

function nodeRoom({ ranksPerNode, processor, host, drive }: Machine, ranks: number): RankRoom {
  const sharers = Math.min(ranks, ranksPerNode);
  return {
    deviceBytes: processor.usableBytes,
    hostBytes: Math.floor(host.usableBytes / sharers),
    diskBytes: Math.floor(drive.freeBytes / sharers),
    hostSharers: sharers,
  };
}

function memoryAlone(deviceBytes: number, flags: MachineFlags): PlannedMachine {
  const sharersOf = (ranks: number): number => Math.min(ranks, flags.ranksPerNode ?? ranks);
  const share = (bytes: number | undefined, ranks: number): number =>
    bytes === undefined ? Number.POSITIVE_INFINITY : Math.floor(bytes / sharersOf(ranks));
  const known = (bytes: number | undefined): string =>
    bytes === undefined ? "taken to be enough" : formatBytes(bytes);
  return {
    name: `a device of ${formatBytes(deviceBytes)}`,
    words: [
      `a device of ${formatBytes(deviceBytes)} usable (name a card with --device for times as well)`,
      `host memory ${known(flags.hostMemory)}, disk ${known(flags.disk)}`,
    ],
    machineOf: undefined,
    roomOf: (ranks) => ({
      deviceBytes,
      hostBytes: share(flags.hostMemory, ranks),
      diskBytes: share(flags.disk, ranks),
      hostSharers: sharersOf(ranks),
    }),
    threadsOf: () => 1,
    isThisMachine: false,
    hasBf16: true,
    peakPerSecond: undefined,
  };
}

function thisMachine(flags: MachineFlags): PlannedMachine {
  if (flags.ranksPerNode !== undefined)
    throw new UsageError("--ranks-per-node is of nodes of cards, and this machine is one; name the card with --device");
  const file = flags.machine ?? calibrationFile();
  const measured = readCalibration(file);
  if (measured === undefined && flags.machine !== undefined)
    throw new UsageError(`--machine ${file}: no such file; shunya doctor --calibrate --output ${file} makes it`);
  const calibration: Calibration = measured ?? guessCalibration();
  const cores = availableParallelism();
  const diskBytes = flags.disk ?? freeBytes();
  const share = machineShareBytes(1);
  const roomOf = (ranks: number): RankRoom => ({
    deviceBytes: flags.deviceMemory ?? Math.floor(share / ranks),
    hostBytes: Math.floor((flags.hostMemory ?? share) / ranks),
    diskBytes: Math.floor(diskBytes / ranks),
    hostSharers: ranks,
    togetherBytes: Math.floor(share / ranks),
  });
  const speed = measured
    ? `speed as measured ${measured.measuredAt.slice(0, 10)}`
    : 'speed guessed from its peak: "shunya doctor --calibrate" measures it';
  return {
    name: "this machine",
    words: [
      `this machine: ${cores} cores, ${formatBytes(totalmem())} of memory for device and host, ${formatBytes(diskBytes)} of disk; ${speed}`,
    ],
    machineOf: (ranks) =>
      machineOfCalibration(calibration, { ranks, threads: defaultThreads(ranks), memoryBytes: share, diskBytes }),
    roomOf,
    threadsOf: defaultThreads,
    isThisMachine: true,
    hasBf16: true,
    peakPerSecond: undefined,
  };
}

/** Of the folder that a run would write to. */
function freeBytes(): number {
  const { bavail, bsize } = statfsSync(".");
  return bavail * bsize;
}
