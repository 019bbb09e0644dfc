/**
 * The header of a safetensors file: eight bytes of little-endian length, then JSON of name to { dtype, shape, data_offsets }, then
 * the data, which the offsets cover without gap or overlap (format by Hugging Face). Checked in full before any byte is used.
 */

import { ModelError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { describeJson } from "./describe.ts";

export interface TensorEntry {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly elements: number;
  /** First byte and byte after the last one, from the start of the data. */
  readonly begin: number;
  readonly end: number;
}

export interface Header {
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  readonly metadata: ReadonlyMap<string, string>;
}

/** Bytes of the length that begins the file. */
export const lengthBytes = 8;
/** The format's own limit; a larger length means another kind of file. */
export const maxHeaderBytes = 100_000_000;

/** Bytes of one element by the names that the format defines; only F32, F16 and BF16 can be read as weights. */
const elementBytes: Readonly<Record<string, number>> = {
  ...{ F64: 8, F32: 4, F16: 2, BF16: 2, I64: 8, I32: 4, I16: 2, I8: 1, U64: 8, U32: 4, U16: 2, U8: 1, BOOL: 1 },
  ...{ F8_E4M3: 1, F8_E5M2: 1 },
};

/** Parses and checks a header of a file whose data has `dataBytes` bytes. Throws ModelError with file, tensor, found and wanted. */
export function parseHeader(path: string, json: Uint8Array, dataBytes: number): Header {
  const record = parseObject(path, json);
  const metadata = new Map<string, string>();
  const tensors = new Map<string, TensorEntry>();
  for (const [name, value] of Object.entries(record)) {
    if (name === "__metadata__") {
      for (const [key, text] of Object.entries(isRecord(value) ? value : {})) metadata.set(key, String(text));
    } else {
      tensors.set(name, parseEntry(path, name, value, dataBytes));
    }
  }
  checkCoverage(path, [...tensors.values()], dataBytes);
  return { tensors, metadata };
}

function parseObject(path: string, json: Uint8Array): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(json));
  } catch (error) {
    throw new ModelError(`${path}: the header is not JSON (${reasonOf(error)}); wanted a safetensors file`, {
      cause: error,
    });
  }
  if (!isRecord(value)) throw new ModelError(`${path}: the header is not a JSON object; wanted a safetensors file`);
  return value;
}

function parseEntry(path: string, name: string, value: unknown, dataBytes: number): TensorEntry {
  const fail = (found: string, wanted: string) =>
    new ModelError(`${path}: tensor ${name}: found ${found}; wanted ${wanted}`);
  if (!isRecord(value)) throw fail(describeJson(value), "an object with dtype, shape and data_offsets");
  const { dtype, shape, data_offsets: offsets } = value;
  if (typeof dtype !== "string" || !Object.hasOwn(elementBytes, dtype)) {
    throw fail(`dtype ${describeJson(dtype)}`, `one of ${Object.keys(elementBytes).join(", ")}`);
  }
  if (!isCounts(shape)) throw fail(`shape ${describeJson(shape)}`, "a list of whole numbers");
  if (!isCounts(offsets) || offsets.length !== 2)
    throw fail(`data_offsets ${describeJson(offsets)}`, "two whole numbers");
  const [begin, end] = offsets as [number, number];
  const elements = shape.reduce((product, size) => product * size, 1);
  const bytes = elements * elementBytes[dtype]!;
  if (!Number.isSafeInteger(bytes)) throw fail(`shape ${describeJson(shape)}`, "fewer than 2^53 bytes");
  if (end - begin !== bytes) throw fail(`${end - begin} bytes`, `${bytes} bytes for ${dtype} [${shape.join(", ")}]`);
  if (end > dataBytes) {
    throw fail(
      `a file that ends after ${dataBytes} bytes of data`,
      `${end} bytes: the file is truncated, fetch it again`,
    );
  }
  return { name, dtype, shape, elements, begin, end };
}

function checkCoverage(path: string, entries: readonly TensorEntry[], dataBytes: number): void {
  let covered = 0;
  let before = "the header";
  for (const entry of entries.toSorted((a, b) => a.begin - b.begin || a.end - b.end)) {
    if (entry.begin !== covered) {
      const what = entry.begin < covered ? "overlaps" : "leaves a gap after";
      throw new ModelError(
        `${path}: tensor ${entry.name} ${what} ${before}: begins at byte ${entry.begin}; wanted ${covered}`,
      );
    }
    covered = entry.end;
    before = `tensor ${entry.name}`;
  }
  if (covered !== dataBytes) {
    throw new ModelError(`${path}: found ${dataBytes - covered} bytes after ${before}; wanted the end of the file`);
  }
}

/** The header's bytes with its length before it and padded with spaces, so that the data begins at a multiple of 8. */
export function renderHeader(
  entries: readonly { readonly name: string; readonly dtype: string; readonly shape: readonly number[] }[],
  metadata: Readonly<Record<string, string>>,
): Uint8Array {
  const record: [string, unknown][] = [["__metadata__", metadata]];
  let begin = 0;
  for (const { name, dtype, shape } of entries) {
    const end = begin + tensorBytes(dtype, shape);
    record.push([name, { dtype, shape, data_offsets: [begin, end] }]);
    begin = end;
  }
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(record)));
  const padded = Math.ceil(json.length / 8) * 8;
  const header = new Uint8Array(lengthBytes + padded).fill(0x20, lengthBytes + json.length);
  new DataView(header.buffer).setBigUint64(0, BigInt(padded), true);
  header.set(json, lengthBytes);
  return header;
}

export function tensorBytes(dtype: string, shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, elementBytes[dtype]!);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && item >= 0);
}
