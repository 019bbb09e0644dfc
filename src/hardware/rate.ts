/** Rates as text: "25GB/s" is bytes, "200Gbit/s" is bits. 1 GB is 10^9 bytes, 1 GiB 2^30. */

const unitBytes: Readonly<Record<string, number>> = {
  "B/s": 1,
  "KB/s": 1e3,
  "MB/s": 1e6,
  "GB/s": 1e9,
  "TB/s": 1e12,
  "KiB/s": 2 ** 10,
  "MiB/s": 2 ** 20,
  "GiB/s": 2 ** 30,
  "TiB/s": 2 ** 40,
  "Mbit/s": 1e6 / 8,
  "Gbit/s": 1e9 / 8,
  "Tbit/s": 1e12 / 8,
  Mbps: 1e6 / 8,
  Gbps: 1e9 / 8,
};

/** What a rate must look like, for messages. */
export const rateWanted = "a rate above 0 such as 25GB/s (bytes) or 200Gbit/s (bits)";

/**
 * Bytes per second; undefined for anything else. Units are read as they are written, since GB and Gb differ by a factor of 8 and
 * nobody can tell which of them a "gb" was.
 */
export function readRate(text: string): number | undefined {
  const match = /^\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+(?:\/s)?)\s*$/.exec(text);
  const unit = match === null ? undefined : unitBytes[match[2]!];
  const rate = match === null || unit === undefined ? 0 : Number(match[1]) * unit;
  return rate > 0 && Number.isFinite(rate) ? rate : undefined;
}

/** "7.88 GB/s", "12 GB/s": at most three digits, no zeros at the end. */
export const rateText = (bytesPerSecond: number): string => `${Number((bytesPerSecond / 1e9).toPrecision(3))} GB/s`;
