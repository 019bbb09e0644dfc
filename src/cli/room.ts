/** What a rank may hold in each tier: what the user allows, and what this machine has. */
import { totalmem } from "node:os";
import type { DiskConfig } from "../config/types.ts";
import { swapGround } from "../device/swap-folder.ts";
import type { Need, Room } from "../report/refusal.ts";
import type { Forecast } from "../zero/forecast.ts";

export interface Budgets {
  /** Undefined: this machine's share. */
  readonly deviceMemoryBytes: number | undefined;
  readonly hostMemoryBytes: number | undefined;
  readonly ranks: number;
}

/** More than that, and the system would end the ranks in mid-training. A container may have less than its machine. */
export function machineShareBytes(ranks: number): number {
  const containerBytes = process.constrainedMemory() || Number.POSITIVE_INFINITY;
  return Math.floor(Math.min(totalmem(), containerBytes) / ranks);
}

/** What the folders for swap files are. Without folders nothing is known of the disk, and it has no end. */
export interface DiskGround {
  /** For each rank, all folders together. */
  readonly roomBytes: number;
  /** Share of what goes there that lies in memory (tmpfs), were the folders to take equal parts. */
  readonly shareInMemory: number;
}

/** @throws UsageError where a folder cannot be used */
export function diskGroundOf({ folders }: DiskConfig, ranks: number): DiskGround {
  const grounds = folders.map((folder) => swapGround(folder));
  if (grounds.length === 0) return { roomBytes: Number.POSITIVE_INFINITY, shareInMemory: 0 };
  const freeBytes = grounds.reduce((sum, ground) => sum + ground.freeBytes, 0);
  return {
    roomBytes: Math.floor(freeBytes / ranks),
    shareInMemory: grounds.filter(({ isMemory }) => isMemory).length / folders.length,
  };
}

/** On this machine both memories are one, so together they must fit it, whatever each budget is. */
export function roomOf({ deviceMemoryBytes, hostMemoryBytes, ranks }: Budgets, disk: DiskGround): Room {
  const memory = machineShareBytes(ranks);
  return { device: deviceMemoryBytes ?? memory, host: hostMemoryBytes ?? memory, disk: disk.roomBytes, memory };
}

export function needOf({ highest, highestInMemory }: Forecast, { shareInMemory }: DiskGround): Need {
  const inMemory = Math.ceil(highest.disk.bytes * shareInMemory);
  return {
    device: highest.device.bytes,
    host: highest.host.bytes + inMemory,
    disk: highest.disk.bytes,
    memory: highestInMemory + inMemory,
  };
}
