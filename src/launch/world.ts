/** Where a rank's device and process group come from: what the launcher shared, or memory of a world of one. */
import { totalmem } from "node:os";
import type { Transport } from "../comm/group.ts";
import { SharedMemoryTransport } from "../comm/shared-memory.ts";
import { CpuBackend } from "../device/cpu.ts";
import { Device } from "../device/device.ts";
import { mapMemory } from "../device/map-memory.ts";
import { loadNative } from "../device/native.ts";
import { checkOptions, type Kinds, numberThat, wholeNumber } from "../errors/options.ts";
import { defaultThreads } from "./environment.ts";
import { joinLaunched } from "./join.ts";

/** Device memory of a rank as address space: all the machine could back, and room for placement. Untouched pages cost nothing. */
export const defaultArenaBytes = (): number => 2 * totalmem();

export interface WorldOptions {
  /** Workers of the compute queue. Defaults to the machine's cores shared out among the ranks. */
  readonly threads?: number;
  /** Budget of the device tier in bytes. Unlimited when left out. */
  readonly deviceMemoryBytes?: number;
  /** Budget of the host tier in bytes: of what is offloaded there. Unlimited when left out. */
  readonly hostMemoryBytes?: number;
  /** The longest a collective waits for other ranks. Defaults to 10 minutes. */
  readonly deadlineMs?: number;
}

export interface World {
  readonly rank: number;
  readonly worldSize: number;
  readonly device: Device;
  readonly transport: Transport;
  /** Aborted when the launcher asks for a clean stop; undefined in a world of one. */
  readonly stopSignal: AbortSignal | undefined;
}

const mostThreads = 1024;

const bytes = numberThat("a positive number of bytes", (value) => value > 0 && value <= Number.MAX_SAFE_INTEGER);

export const worldKinds: Kinds<WorldOptions> = {
  threads: wholeNumber(1, mostThreads),
  deviceMemoryBytes: bytes,
  hostMemoryBytes: bytes,
  deadlineMs: numberThat("milliseconds, 1 or more", (value) => value >= 1 && value <= 2 ** 31 - 1),
};

/** Joins the world that `shunya launch` or `shunya train` made; a process that nobody launched is a world of one. */
export function joinWorld(options: WorldOptions = {}): World {
  checkOptions("joinWorld", options, worldKinds);
  return enterWorld(options);
}

/** The same for options that were checked, which may hold more. @param budgetAdvice what to do where a budget does not hold */
export function enterWorld(options: WorldOptions, budgetAdvice?: string): World {
  const native = loadNative();
  const launched = joinLaunched();
  const rank = launched?.rank ?? 0;
  const worldSize = launched?.worldSize ?? 1;
  const arenaBytes = launched?.arenaBytes ?? defaultArenaBytes();
  const controlBytes = native.controlBytes(worldSize);
  const control = launched
    ? native.openRegion(launched.descriptors.control, controlBytes)
    : mapMemory(controlBytes, () => native.createRegion(controlBytes));
  const arenas = launched
    ? launched.descriptors.arenas.map((fd) => mapMemory(arenaBytes, () => native.openRegion(fd, arenaBytes)))
    : [mapMemory(arenaBytes, () => native.createRegion(arenaBytes))];
  const backend = new CpuBackend({
    threads: options.threads ?? defaultThreads(worldSize),
    deviceRegion: arenas[rank]!,
    arenaBytes,
  });
  const { deviceMemoryBytes, hostMemoryBytes } = options;
  const budgets = {
    ...(deviceMemoryBytes !== undefined && { device: deviceMemoryBytes }),
    ...(hostMemoryBytes !== undefined && { host: hostMemoryBytes }),
  };
  const device = new Device({ backend, arenaBytes, budgets, budgetAdvice });
  const deadlineMs = options.deadlineMs ?? 600_000;
  const describeTag = (tag: number): string => backend.tagNames(tag);
  const transport = new SharedMemoryTransport({ rank, worldSize, control, arenas, deadlineMs, describeTag });
  return { rank, worldSize, device, transport, stopSignal: launched?.stopSignal };
}
