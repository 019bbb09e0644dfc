/** Small words that the explanation's parts share. */
import type { ConfigResolution } from "../config/resolve.ts";
import type { ElementType } from "../config/types.ts";
import { type DType, dtypeBytes } from "../device/dtype.ts";
import type { Tier } from "../device/ledger.ts";
import { formatBytes, formatCount } from "./numbers.ts";

/** A device's element type as configurations call it. */
export const typeNames: Readonly<Record<DType, ElementType | "int32" | "fp64">> = {
  f32: "fp32",
  bf16: "bf16",
  f16: "fp16",
  i32: "int32",
  f64: "fp64",
};

export const onTier: Readonly<Record<Tier, string>> = {
  device: "on the device",
  host: "in host memory",
  disk: "on disk",
};

/** Exact as far as people read digits, and six of them with an exponent beyond. */
export const formatElements = (elements: number): string =>
  elements < 1e11 ? formatCount(elements) : Number(elements.toPrecision(6)).toExponential().replace("e+", "e");

/** "500,000,000 elements of 2 bytes are 1.00 GB". */
export function elementsAreBytes(elements: number, type: DType): string {
  const each = dtypeBytes[type];
  const are = elements === 1 ? "element of" : "elements of";
  return `${formatElements(elements)} ${are} ${each} bytes ${elements === 1 ? "is" : "are"} ${formatBytes(each * elements)}`;
}

/** "(line 9)", "(--set)", or "" for a key that nobody wrote. */
export function placeText({ places, sources }: ConfigResolution, path: string): string {
  const place = places.get(path);
  const source = sources.get(path);
  if (place === undefined || (source !== "file" && source !== "flag")) return "";
  return source === "flag" ? " (a flag)" : place.line === undefined ? " (the file)" : ` (line ${place.line})`;
}

/** "psi / N", "12 x 0.700 psi / N": numbers before psi that are multiplied are told apart. */
export const readableFormula = (formula: string): string => formula.replace(/(\d) (0\.\d+) psi/g, "$1 x $2 psi");
