/** Values of flags: text to numbers, with an answer for whatever else was given. */
import { InvalidArgumentError } from "commander";
import { DeviceError } from "../errors/errors.ts";

const unitBytes: Readonly<Record<string, number>> = {
  "": 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
};

/** "24GB" (10^9 bytes each), "512MiB" (2^20), or plain bytes. */
export function parseBytes(text: string): number {
  const match = /^\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*$/i.exec(text);
  const unit = match === null ? undefined : unitBytes[match[2]!.toLowerCase()];
  if (!match || unit === undefined)
    throw new InvalidArgumentError(`found "${text}"; wanted a size such as 24GB, 512MiB or plain bytes.`);
  return Math.floor(Number(match[1]) * unit);
}

/** A parser for whole numbers of at least `least`, and of at most `most` where that is given. */
export const parseInteger =
  (least: number, most = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text);
    if (/^[0-9]+$/.test(text.trim()) && value >= least && value <= most) return value;
    const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
    throw new InvalidArgumentError(`found "${text}"; wanted a whole number ${range}.`);
  };

export function parsePositive(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value <= 0)
    throw new InvalidArgumentError(`found "${text}"; wanted a number above 0, such as 1e-4.`);
  return value;
}

export function parseTemperature(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < 0)
    throw new InvalidArgumentError(`found "${text}"; wanted a number of at least 0.`);
  return value;
}

/** @throws DeviceError for anything but "cpu": what is not there is said, not guessed */
export function parseDevice(text: string): string {
  if (text === "cpu") return text;
  throw new DeviceError(`--device ${text}: this version trains on the CPU only; leave --device out, or give cpu`);
}
