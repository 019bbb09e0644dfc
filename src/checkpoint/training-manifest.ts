/**
 * checkpoint.json: what a training checkpoint is of, in plain JSON. The numbers of the tensors lie beside it in one safetensors
 * file a rank, each entry a range of one tensor's state, named by tensor, kind and first element (docs/checkpoints.md).
 */
import type { DType } from "../device/dtype.ts";
import { CheckpointError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import type { EngineProgress } from "../zero/progress.ts";
import { type StateKind, stateKinds } from "../zero/state.ts";
import { Checksum } from "./checksum.ts";
import { describeJson } from "./describe.ts";

export const manifestName = "checkpoint.json";
export const formatName = "shunya-checkpoint";
export const formatVersion = 2;
/** Version 1 has no base: all tensors are in the files. */
const readVersions: readonly unknown[] = [1, formatVersion];

/** Plain data that JSON keeps as it is. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

export interface SavedTensor {
  /** Of the whole tensor. */
  readonly shape: readonly number[];
  /** Element type of the parameters in training; the files hold fp32. */
  readonly dtype: DType;
  readonly trainable: boolean;
  /** Of a frozen tensor that is not in the files, since it stays in the base: the digest of its fp32 values there; 16 hexadecimal digits. */
  readonly baseDigest?: string;
}

export interface SavedFile {
  readonly name: string;
  readonly bytes: number;
  /** Of the whole file; 8 hexadecimal digits. */
  readonly crc32: string;
  /** CRC-32 of each part of so many bytes, 8 digits each: where damage is. Files of earlier versions have none. */
  readonly blockBytes?: number;
  readonly blocks?: string;
}

export interface Manifest {
  readonly format: typeof formatName;
  readonly formatVersion: number;
  readonly shunyaVersion: string;
  /** Attempted steps so far; the folder's name has it too. */
  readonly step: number;
  readonly worldSize: number;
  readonly seed: number;
  readonly progress: EngineProgress;
  /** The next sample of the run (from 0), counted over all ranks: attempted steps x train batch. */
  readonly nextSample: number;
  /** The resolved configuration. */
  readonly config: JsonObject;
  /** What else the run was made of (model, data), as whoever saved it told. */
  readonly run: JsonObject;
  /** The model folder (an absolute path) that tensors with a `baseDigest` are read from. Left out: all are in the files. */
  readonly base?: { readonly folder: string };
  /** Kinds of state that trainable tensors have; frozen ones have `master` alone, or nothing where they stay in the base. */
  readonly kinds: readonly StateKind[];
  readonly tensors: Readonly<Record<string, SavedTensor>>;
  /** In rank order. */
  readonly files: readonly SavedFile[];
}

/** The kinds of state that a checkpoint's files have of a tensor. */
export function kindsOf(manifest: Manifest, tensor: SavedTensor): readonly StateKind[] {
  if (tensor.trainable) return manifest.kinds;
  return tensor.baseDigest === undefined ? ["master"] : [];
}

/** `step-00000040`: names in the order of steps. */
export const stepFolderName = (step: number): string => `step-${String(step).padStart(8, "0")}`;

/** The step of a published folder's name; undefined for any other name. */
export function stepOfFolder(name: string): number | undefined {
  const digits = /^step-(\d{8,15})$/.exec(name)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

export const rankFileName = (rank: number, worldSize: number): string =>
  `rank-${String(rank).padStart(4, "0")}-of-${String(worldSize).padStart(4, "0")}.safetensors`;

/** The name of a range's entry: its tensor, kind and first element. */
export const entryName = (name: string, kind: StateKind, first: number): string => `${name}|${kind}|${first}`;

/** @returns undefined where the name is no entry's */
export function parseEntryName(entry: string): { name: string; kind: StateKind; first: number } | undefined {
  const match = /^(.+)\|([^|]+)\|(0|[1-9]\d{0,15})$/s.exec(entry);
  const kind = stateKinds.find((k) => k === match?.[2]);
  return match && kind ? { name: match[1]!, kind, first: Number(match[3]) } : undefined;
}

/** With a checksum of its own as the first field, since a changed digit leaves JSON that parses. */
export function renderManifest(manifest: Manifest): string {
  return `${JSON.stringify({ crc32: contentChecksum(manifest), ...manifest }, undefined, 2)}\n`;
}

/** Of the values, however they are laid out in lines. */
function contentChecksum(content: object): string {
  const sum = new Checksum();
  sum.add(new TextEncoder().encode(JSON.stringify(content)));
  return sum.hex;
}

type Check = (value: unknown) => boolean;
const isObject: Check = (v) => typeof v === "object" && v !== null && !Array.isArray(v);
const isText: Check = (v) => typeof v === "string";
const isCount: Check = (v) => Number.isSafeInteger(v) && (v as number) >= 0;
const isNumber: Check = (v) => typeof v === "number";
const listOf =
  (check: Check): Check =>
  (v) =>
    Array.isArray(v) && v.every(check);
const record =
  (fields: Readonly<Record<string, Check>>): Check =>
  (v) =>
    isObject(v) && Object.entries(fields).every(([key, check]) => check((v as Record<string, unknown>)[key]));

const isProgress = record({
  attempted: isCount,
  updates: isCount,
  consecutiveSkips: isCount,
  lossScale: record({
    scale: isNumber,
    hysteresisLeft: Number.isSafeInteger,
    seen: isCount,
    lastOverflow: Number.isSafeInteger,
  }),
});
const isTensorRecord = record({
  shape: listOf(isCount),
  dtype: isText,
  trainable: (v) => typeof v === "boolean",
  baseDigest: (v) => v === undefined || (typeof v === "string" && /^[0-9a-f]{16}$/.test(v)),
});
/** What is trained is in the files. */
const isTensor: Check = (v) =>
  isTensorRecord(v) && !((v as SavedTensor).trainable && "baseDigest" in (v as SavedTensor));
const isBase = record({ folder: (v) => typeof v === "string" && v !== "" });
const isFile = record({
  // A file lies in its folder; anything else could read outside of it.
  name: (v) => typeof v === "string" && /^rank-\d{4,}-of-\d{4,}\.safetensors$/.test(v),
  bytes: isCount,
  crc32: (v) => typeof v === "string" && /^[0-9a-f]{8}$/.test(v),
  blockBytes: (v) => v === undefined || (isCount(v) && v !== 0),
  blocks: (v) => v === undefined || (typeof v === "string" && /^[0-9a-f]*$/.test(v)),
});

/** Each field, what fits, and that in words. */
const fields: Readonly<Record<string, readonly [Check, string]>> = {
  shunyaVersion: [isText, "a text"],
  step: [isCount, "a whole number"],
  worldSize: [(v) => isCount(v) && v !== 0, "a whole number from 1 on"],
  seed: [isCount, "a whole number"],
  progress: [isProgress, "attempted, updates, consecutiveSkips and lossScale"],
  nextSample: [isCount, "a whole number"],
  config: [isObject, "an object"],
  run: [isObject, "an object"],
  base: [(v) => v === undefined || isBase(v), "a folder"],
  kinds: [listOf((v) => (stateKinds as readonly unknown[]).includes(v)), `a list of ${stateKinds.join(", ")}`],
  tensors: [
    (v) => isObject(v) && Object.values(v as object).every(isTensor),
    "shape, dtype and trainable by tensor, and baseDigest of some that are frozen",
  ],
  files: [listOf(isFile), "a list of name, bytes and crc32"],
};

/** @param path how errors name it @throws CheckpointError */
export function parseManifest(text: string, path: string): Manifest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CheckpointError(`${path} is not JSON: ${reasonOf(error)}`, { cause: error });
  }
  const found = (isObject(value) ? value : {}) as Record<string, unknown>;
  if (found.format !== formatName)
    throw new CheckpointError(`${path}: format: found ${describeJson(found.format)}; wanted "${formatName}"`);
  if (!readVersions.includes(found.formatVersion))
    throw new CheckpointError(
      `${path}: formatVersion: found ${describeJson(found.formatVersion)}; this version reads ${readVersions.join(" and ")}: use the version of Shunya that wrote it (${describeJson(found.shunyaVersion)})`,
    );
  for (const [key, [fits, wanted]] of Object.entries(fields))
    if (!fits(found[key]))
      throw new CheckpointError(`${path}: ${key}: found ${describeJson(found[key])}; wanted ${wanted}`);
  const inBase = Object.entries(found.tensors as Manifest["tensors"]).find(
    ([, tensor]) => tensor.baseDigest !== undefined,
  );
  if (inBase && found.base === undefined)
    throw new CheckpointError(`${path}: base: found nothing; wanted the folder that holds tensor ${inBase[0]}`);
  const { crc32, ...manifest } = found;
  const checksum = contentChecksum(manifest);
  if (crc32 !== checksum)
    throw new CheckpointError(
      `${path}: its content has checksum ${checksum}; wanted ${describeJson(crc32)}, as it says itself: it is damaged, or was edited`,
    );
  return manifest as unknown as Manifest;
}
