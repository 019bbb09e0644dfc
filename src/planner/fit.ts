/**
 * The rule of fit: of the usable memory a job may take 85 %, and 2 GB stay free. What no plan knows (fragmentation, other processes,
 * a library's workspace) takes from the rest.
 */
import type { Estimate } from "./estimate.ts";

export const mostShare = 0.85;
const leastFreeBytes = 2e9;

/** The most that a job may take of so many usable bytes. Never below 0. */
export const allowedBytes = (usableBytes: number): number =>
  Math.max(0, Math.min(mostShare * usableBytes, usableBytes - leastFreeBytes));

/** What one rank may use; host and disk are its share of its node's. */
export interface RankRoom {
  readonly deviceBytes: number;
  readonly hostBytes: number;
  readonly diskBytes: number;
}

export type Shortage = "device" | "host" | "disk";

/** What an estimate needs more of than it may take. The rule's reserve is the device's and the host's; a disk may be filled. */
export function shortagesOf({ device, hostBytes, diskBytes }: Estimate, room: RankRoom): Shortage[] {
  const short: Shortage[] = [];
  if (device.totalBytes > allowedBytes(room.deviceBytes)) short.push("device");
  if (hostBytes > 0 && hostBytes > allowedBytes(room.hostBytes)) short.push("host");
  if (diskBytes > room.diskBytes) short.push("disk");
  return short;
}

/** What of the device's allowance is left; negative where it does not fit. */
export const headroomBytes = ({ device }: Pick<Estimate, "device">, { deviceBytes }: RankRoom): number =>
  allowedBytes(deviceBytes) - device.totalBytes;
