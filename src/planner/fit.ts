/**
 * The rule of fit: of the usable memory a job may take 85 %, and 2 GB stay free. What no plan knows (fragmentation, other processes,
 * a library's workspace) takes from the rest.
 */
import type { Estimate } from "./estimate.ts";

export const mostShare = 0.85;
const leastFreeBytes = 2e9;

/**
 * The most that a job may take of so many usable bytes. Never below 0.
 * @param sharers ranks that have the memory in common and each count a share of it: what stays free is theirs together
 */
export const allowedBytes = (usableBytes: number, sharers = 1): number =>
  Math.max(0, Math.min(mostShare * usableBytes, usableBytes - leastFreeBytes / sharers));

/** What one rank may use; host and disk are its share of its node's. */
export interface RankRoom {
  readonly deviceBytes: number;
  readonly hostBytes: number;
  readonly diskBytes: number;
  /** Ranks among which host memory is divided. */
  readonly hostSharers: number;
  /** Device and host are one memory, of which this is the rank's share. */
  readonly togetherBytes?: number;
}

/** `together`: device and host are one memory, and both do not fit it. */
export type Shortage = "device" | "host" | "disk" | "together";

/** What an estimate needs more of than it may take. The rule's reserve is the device's and the host's; a disk may be filled. */
export function shortagesOf({ device, hostBytes, diskBytes }: Estimate, room: RankRoom): Shortage[] {
  const short: Shortage[] = [];
  if (device.totalBytes > deviceAllowance(room)) short.push("device");
  if (hostBytes > allowedBytes(room.hostBytes, room.hostSharers)) short.push("host");
  if (diskBytes > room.diskBytes) short.push("disk");
  const both = device.totalBytes + hostBytes;
  if (room.togetherBytes !== undefined && both > allowedBytes(room.togetherBytes, room.hostSharers))
    short.push("together");
  return short;
}

/** The most that a rank may take of its device. */
export const deviceAllowance = ({ deviceBytes, togetherBytes, hostSharers }: RankRoom): number =>
  allowedBytes(deviceBytes, togetherBytes === undefined ? 1 : hostSharers);

/** What of the device's allowance is left; negative where it does not fit. */
export const headroomBytes = ({ device }: Pick<Estimate, "device">, room: RankRoom): number =>
  deviceAllowance(room) - device.totalBytes;
