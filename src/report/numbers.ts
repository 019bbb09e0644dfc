/** Numbers as people read them. Units are decimal unless they say otherwise: 1 GB is 10^9 bytes, 1 GiB is 2^30. */

const decimalUnits = ["B", "KB", "MB", "GB", "TB", "PB", "EB"] as const;
const binaryUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] as const;

/** Three significant digits, whole bytes below 1 KB: "0 B", "999 B", "1.50 KB", "24.0 GB". */
export function formatBytes(bytes: number): string {
  return scaled(bytes, 1000, decimalUnits);
}

/** The same in powers of 1024, and named so: "1.50 KiB", "22.4 GiB". */
export function formatBinaryBytes(bytes: number): string {
  return scaled(bytes, 1024, binaryUnits);
}

/** Five significant digits where they say something, and at least three: "24.0 GB", "5.625 GB", "3.0525 GB". */
export function formatFineBytes(bytes: number): string {
  const coarse = formatBytes(bytes);
  const [number, unit] = coarse.split(" ") as [string, (typeof decimalUnits)[number]];
  if (unit === "B" || !Number.isFinite(bytes)) return coarse;
  const scaledBytes = bytes / 1000 ** decimalUnits.indexOf(unit);
  const fine = Number(scaledBytes.toPrecision(5)).toString();
  return fine.length > number.length ? `${fine} ${unit}` : coarse;
}

/** Floating-point operations: "1.25 TFLOP". */
export function formatOperations(operations: number): string {
  return scaled(operations, 1000, ["FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"]);
}

/** An exact whole number with thousands separated: "124,439,808". */
export function formatCount(count: number): string {
  return Math.round(count)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");
}

/** "1 step", "2,000 steps". @param noun in the singular; its plural ends in s */
export function formatMany(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

const numberWords = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/** "three buckets"; above ten "11 buckets". @param noun in the singular; its plural ends in s */
export function countWords(count: number, noun: string): string {
  return `${numberWords[count] ?? formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Four significant digits, and an exponent where zeros would hide them: "3.142", "0.0006000", "2.500e-5", "NaN". */
export function formatReal(value: number): string {
  if (!Number.isFinite(value) || value === 0) return String(value);
  const size = Math.abs(value);
  return size < 1e-4 || size >= 1e6 ? value.toExponential(3) : value.toPrecision(4);
}

/** "45 s", "3 min 20 s", "2 h 5 min"; "?" where nothing is known yet. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "?";
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** "12.3 %" of a whole; "-" of nothing. */
export function formatShare(part: number, whole: number): string {
  return whole === 0 ? "-" : `${((100 * part) / whole).toFixed(1)} %`;
}

function scaled(value: number, base: number, units: readonly string[]): string {
  if (!Number.isFinite(value)) return `${value} ${units[0]}`;
  let size = Math.abs(value);
  let unit = 0;
  // 999.5 and more would be printed as 1000 of the smaller unit.
  while (unit < units.length - 1 && size >= (unit === 0 ? base : base - 0.5)) {
    size /= base;
    unit++;
  }
  const sign = value < 0 ? "-" : "";
  if (unit === 0) return `${sign}${Math.round(size)} ${units[0]}`;
  const decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return `${sign}${size.toFixed(decimals)} ${units[unit]}`;
}
