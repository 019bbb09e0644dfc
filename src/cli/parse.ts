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

export function parsePositiveBytes(text: string): number {
  const bytes = parseBytes(text);
  if (bytes > 0) return bytes;
  throw new InvalidArgumentError(`found "${text}"; wanted a size above 0.`);
}

const suffixDigits: Readonly<Record<string, number>> = { "": 0, k: 3, m: 6, b: 9, g: 9, t: 12 };

/**
 * "1.5B", "1.5e9", "1,500,000,000" and "1500000000" are one number; k, M, B (or G) and T stand for 10^3, 10^6, 10^9 and 10^12.
 * Refuses what is not a whole number above 0. The digits are read as text, so that 1.1B is 1,100,000,000 and not nearly that.
 */
export function parseCount(text: string): number {
  const match = /^([0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.([0-9]+))?(?:e\+?([0-9]{1,2}))?\s?([a-z]?)$/i.exec(text.trim());
  const digits = match === null ? undefined : suffixDigits[match[4]!.toLowerCase()];
  if (!match || digits === undefined)
    throw new InvalidArgumentError(`found "${text}"; wanted a number such as 1.5B, 350M, 1.5e9 or 1,500,000,000.`);
  const fraction = (match[2] ?? "").replace(/0+$/, "");
  const exponent = Number(match[3] ?? 0) + digits;
  const count = Number(`${match[1]!.replaceAll(",", "")}.${fraction}e${exponent}`);
  if (count === 0) throw new InvalidArgumentError(`found "${text}"; wanted a number above 0.`);
  if (fraction.length > exponent)
    throw new InvalidArgumentError(`found "${text}", which is ${count}; wanted a whole number.`);
  if (count > Number.MAX_SAFE_INTEGER)
    throw new InvalidArgumentError(`found "${text}"; wanted a number of at most 9,007,199,254,740,991.`);
  return count;
}

/** A parser for whole numbers (also as 1e6) of at least `least`, and of at most `most` where that is given. */
export const parseInteger =
  (least: number, most = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text);
    if (/^[0-9]+(e\+?[0-9]+)?$/i.test(text.trim()) && value >= least && value <= most) return value;
    const isAny = most === Number.MAX_SAFE_INTEGER && !(value > most);
    const range = isAny ? `of at least ${least}` : `from ${least} to ${most}`;
    throw new InvalidArgumentError(`found "${text}"; wanted a whole number ${range}.`);
  };

export function parsePositive(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value <= 0)
    throw new InvalidArgumentError(`found "${text}"; wanted a number above 0, such as 1e-4.`);
  return value;
}

export function parseShare(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !(value > 0 && value < 1))
    throw new InvalidArgumentError(`found "${text}"; wanted a share above 0 and below 1, such as 0.01.`);
  return value;
}

export function parseShareOrAll(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !(value > 0 && value <= 1))
    throw new InvalidArgumentError(`found "${text}"; wanted a share above 0 and of at most 1, such as 0.95.`);
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
