/** What a pickle may hold, and what may be called for it. */
import { shownName } from "./pickle-bytes.ts";

/** An object of a class that is known by name only: what it was made with, and its attributes. */
export class PickleObject {
  readonly className: string;
  readonly arguments: readonly unknown[];
  readonly attributes = new Map<unknown, unknown>();
  constructor(className: string, args: readonly unknown[]) {
    this.className = className;
    this.arguments = args;
  }
}

/** What a constructor may ask of the reader. */
export interface Construction {
  /** Told before that many values or bytes are copied. @throws ModelError where the whole budget is used up */
  spend(count: number): void;
  /** What a callable that was named makes of arguments. */
  call(callable: unknown, args: unknown): unknown;
  /** An error at this place of the file. */
  error(message: string): Error;
}

/** Makes a value of a Python callable's arguments, which stay as they are; a dict, list or object that it returns is a new one. */
export type Constructor = (args: readonly unknown[], construction: Construction) => unknown;

/** A name that stands for a value, such as an element type. */
export class PickleConstant {
  readonly value: unknown;
  constructor(value: unknown) {
    this.value = value;
  }
}

/** An allowed name on the stack. */
export class PickleGlobal {
  readonly name: string;
  readonly construct: Constructor;
  constructor(name: string, construct: Constructor) {
    this.name = name;
    this.construct = construct;
  }
}

export const isTuple = (value: unknown): value is readonly unknown[] => Array.isArray(value) && Object.isFrozen(value);
export const isList = (value: unknown): value is unknown[] => Array.isArray(value) && !Object.isFrozen(value);
export const isMap = (value: unknown): value is Map<unknown, unknown> => value instanceof Map;
export const isContainer = (value: unknown): boolean => isList(value) || isMap(value) || value instanceof PickleObject;
export const isBuildable = (value: unknown): value is Map<unknown, unknown> | PickleObject =>
  isMap(value) || value instanceof PickleObject;
export const isKey = (value: unknown): boolean =>
  value === null || ["string", "number", "bigint", "boolean"].includes(typeof value) || isTuple(value);

/** A value in few words, for messages: what it holds is not looked at. */
export function describeValue(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "None";
  if (isTuple(value)) return `a tuple of ${value.length}`;
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (isMap(value)) return `a dict of ${value.size}`;
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  if (value instanceof PickleObject) return `an object of ${value.className}`;
  if (value instanceof PickleGlobal) return value.name;
  if (typeof value === "string") return `"${shownName(value)}"`;
  return typeof value === "object" ? "a tensor" : String(value);
}
