/** What DeepSpeed's files hold besides tensors, and how values are taken out of them. */
import { CheckpointError } from "../errors/errors.ts";
import { type Constructor, describeValue, isMap, PickleObject } from "./pickle-values.ts";
import { TorchTensor } from "./torch-globals.ts";

/** Classes of which only the name and the attributes matter; none of their code is run. */
const classNames = [
  "deepspeed.runtime.fp16.loss_scaler LossScaler",
  "deepspeed.runtime.fp16.loss_scaler DynamicLossScaler",
  "deepspeed.runtime.zero.config ZeroStageEnum",
  "deepspeed.utils.tensor_fragment fragment_address",
];

export const deepspeedGlobals: ReadonlyMap<string, Constructor> = new Map(
  classNames.map((name) => [name, (args) => new PickleObject(name.replace(" ", "."), args)]),
);

export type Fields = ReadonlyMap<unknown, unknown>;

/** A dict, or an object's attributes. @param where of the message */
export function fieldsOf(value: unknown, where: string): Fields {
  if (isMap(value)) return value;
  if (value instanceof PickleObject) return value.attributes;
  throw new CheckpointError(`${where}: found ${describeValue(value)}; wanted a dict`);
}

export function listOf(value: unknown, where: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new CheckpointError(`${where}: found ${describeValue(value)}; wanted a list`);
}

export function tensorOf(value: unknown, where: string): TorchTensor {
  if (value instanceof TorchTensor) return value;
  throw new CheckpointError(`${where}: found ${describeValue(value)}; wanted a tensor`);
}

/** A whole number, or an enum's. */
export function countOf(value: unknown, where: string): number {
  const found = value instanceof PickleObject ? value.arguments[0] : value;
  if (Number.isSafeInteger(found) && (found as number) >= 0) return found as number;
  throw new CheckpointError(`${where}: found ${describeValue(found)}; wanted a whole number`);
}

export function textOf(value: unknown, where: string): string {
  if (typeof value === "string") return value;
  throw new CheckpointError(`${where}: found ${describeValue(value)}; wanted a text`);
}

export function shapeOf(value: unknown, where: string): readonly number[] {
  return listOf(value, where).map((size) => countOf(size, where));
}

/** Settings are nested a few levels deep; a hostile file may nest without end. */
const deepestSetting = 20;

/** Dicts as objects. What JSON does not have becomes null. */
export function plainOf(value: unknown, depth = 0): unknown {
  if (depth > deepestSetting) return null;
  if (isMap(value)) return Object.fromEntries([...value].map(([key, item]) => [String(key), plainOf(item, depth + 1)]));
  if (Array.isArray(value)) return value.map((item) => plainOf(item, depth + 1));
  return ["string", "number", "boolean"].includes(typeof value) ? value : null;
}
