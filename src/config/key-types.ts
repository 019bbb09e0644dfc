/** Value types of single keys, built on the general ones. */

import type { ConfigNode } from "./json.ts";
import type { ParameterGroupConfig } from "./types.ts";
import { boolean, describe, float32Limit, integer, number, type ValueType, wantedOf } from "./value-types.ts";

export const text: ValueType<string> = {
  wanted: "text",
  schema: { type: "string" },
  // With a NUL in it it names nothing that a system has.
  read: (node) =>
    node.kind === "scalar" && typeof node.value === "string" && !node.value.includes("\0") ? node.value : undefined,
};

/** Text, of which the empty one says nothing. */
export const path: ValueType<string> = {
  wanted: "a path as text",
  schema: { type: "string", minLength: 1 },
  read: (node) => text.read(node) || undefined,
};

/** `shunya.delayed_update`: the first step (from 1) whose update is delayed; false where none is. */
export const delayedUpdate: ValueType<{ readonly startStep: number } | false> = {
  wanted: 'true, false, or { "start_step": 40 }',
  schema: {
    anyOf: [
      { type: "boolean" },
      { type: "object", properties: { start_step: { type: "integer", minimum: 1 } }, additionalProperties: false },
    ],
  },
  read(node) {
    if (node.kind === "array") return undefined;
    if (node.kind === "scalar") {
      const isOn = boolean.read(node);
      return isOn ? { startStep: 1 } : isOn;
    }
    if (node.members.some((m) => m.key !== "start_step")) return undefined;
    const [start] = node.members;
    const startStep = start === undefined ? 1 : integer(1).read(start.value);
    return startStep === undefined ? undefined : { startStep };
  },
};

/** What is wrong inside the object form. */
export function explainDelay(node: ConfigNode): string | undefined {
  if (node.kind !== "object") return undefined;
  for (const { key, value } of node.members) {
    if (key !== "start_step") return `unknown key ${key}; known is start_step`;
    if (integer(1).read(value) === undefined)
      return `start_step: found ${describe(value)}; wanted ${wantedOf(integer(1), value)}`;
  }
  return undefined;
}

/** One path or a list of them. */
export const paths: ValueType<readonly string[]> = {
  wanted: "a path as text, or a list of paths",
  schema: { anyOf: [path.schema, { type: "array", items: path.schema }] },
  read(node) {
    const items = (node.kind === "array" ? node.items : [node]).map((item) => path.read(item));
    return items.every((item) => item !== undefined) ? (items as string[]) : undefined;
  },
};

/** One name (or pattern of names) or a list of them. */
export const names: ValueType<readonly string[]> = {
  wanted: "a name as text, or a list of names",
  schema: { anyOf: [path.schema, { type: "array", items: path.schema, minItems: 1 }] },
  read: (node) => patterns(node),
};

/** Words exactly as DeepSpeed writes them, where it does not take other cases. */
export function words<const T extends string>(values: readonly T[]): ValueType<T> {
  return {
    wanted: values.map((value) => JSON.stringify(value)).join(values.length === 2 ? " or " : ", "),
    schema: { enum: values },
    read: (node) => values.find((value) => node.kind === "scalar" && node.value === value),
  };
}

const atLeastZero = number(0);

/** A number in [0, 1]. */
export const share: ValueType<number> = {
  wanted: "a number from 0 to 1",
  schema: { type: "number", minimum: 0, maximum: 1 },
  read(node) {
    const value = atLeastZero.read(node);
    return value !== undefined && value <= 1 ? value : undefined;
  },
};

/** A number above 0. */
export const positive: ValueType<number> = {
  wanted: "a number above 0",
  limit: float32Limit,
  schema: { type: "number", exclusiveMinimum: 0 },
  read: (node) => atLeastZero.read(node) || undefined,
};

/** A number of either sign, as a rate that may rise or fall. */
export const anyNumber: ValueType<number> = {
  wanted: "a number",
  limit: float32Limit,
  schema: { type: "number" },
  read(node) {
    const value = node.kind === "scalar" ? node.value : undefined;
    const negative = typeof value === "number" && value < 0;
    const size = atLeastZero.read(negative ? { kind: "scalar", value: -value } : node);
    return size === undefined || !negative ? size : -size;
  },
};

/** DeepSpeed refuses true, which other numbers take as 1: true was once meant as "scale the loss". */
export const lossScale: ValueType<number> = {
  wanted: "0 for a dynamic scale, or the static scale",
  limit: float32Limit,
  schema: { type: "number", minimum: 0 },
  read: (node) => (node.kind === "scalar" && typeof node.value === "boolean" ? undefined : atLeastZero.read(node)),
};

/** The largest power of two that fp32 holds, and one below, so that the scale can double. */
const largestPower = 126;

export const scalePower: ValueType<number> = {
  wanted: `a whole number from 0 to ${largestPower} (the scale is an fp32 number)`,
  schema: { type: "integer", minimum: 0, maximum: largestPower },
  read(node) {
    const power = integer(0).read(node);
    return power !== undefined && power <= largestPower ? power : undefined;
  },
};

/** A whole number from 1 on, or -1 for "all". */
export const countOrAll: ValueType<number> = {
  wanted: "a positive whole number, or -1 for all",
  schema: { anyOf: [{ const: -1 }, { type: "integer", minimum: 1 }] },
  read: (node) => (node.kind === "scalar" && node.value === -1 ? -1 : integer(1).read(node)),
};

const pattern = { type: "string", minLength: 1 };
const groupSchema = {
  type: "object",
  properties: {
    match: { anyOf: [pattern, { type: "array", items: pattern, minItems: 1 }] },
    lr: { type: "number", minimum: 0 },
    weight_decay: { type: "number", minimum: 0 },
  },
  required: ["match"],
  additionalProperties: false,
};

/** `shunya.parameter_groups`. */
export const parameterGroups: ValueType<readonly ParameterGroupConfig[]> = {
  wanted: 'a list of groups such as { "match": ["*.bias", "*norm*"], "weight_decay": 0 }',
  schema: { type: "array", items: groupSchema },
  read(node) {
    if (node.kind !== "array" || explainGroups(node) !== undefined) return undefined;
    return node.items.map((group) => ({
      match: patterns(member(group, "match")!)!,
      learningRate: optional(group, "lr"),
      weightDecay: optional(group, "weight_decay"),
    }));
  },
};

/** What is wrong with the first group that is wrong. */
export function explainGroups(node: ConfigNode): string | undefined {
  if (node.kind !== "array") return undefined;
  for (const [i, group] of node.items.entries()) {
    const fault = groupFault(group);
    if (fault !== undefined) return `group ${i + 1}: ${fault}`;
  }
  return undefined;
}

function groupFault(group: ConfigNode): string | undefined {
  if (group.kind !== "object") return `found ${describe(group)}; wanted an object with match, lr and weight_decay`;
  for (const { key } of group.members)
    if (!["match", "lr", "weight_decay"].includes(key)) return `unknown key ${key}; known are match, lr, weight_decay`;
  const match = member(group, "match");
  if (match === undefined || patterns(match) === undefined)
    return 'wanted "match": a pattern of parameter names, or a list of them';
  for (const key of ["lr", "weight_decay"]) {
    const value = member(group, key);
    if (value !== undefined && atLeastZero.read(value) === undefined)
      return `${key}: found ${describe(value)}; wanted ${wantedOf(atLeastZero, value)}`;
  }
  return undefined;
}

function member(node: ConfigNode, key: string): ConfigNode | undefined {
  return node.kind === "object" ? node.members.find((m) => m.key === key)?.value : undefined;
}

function optional(group: ConfigNode, key: string): number | undefined {
  const value = member(group, key);
  return value && atLeastZero.read(value);
}

function patterns(node: ConfigNode): string[] | undefined {
  const items = (node.kind === "array" ? node.items : [node]).map((item) => path.read(item));
  return items.length > 0 && items.every((item) => item !== undefined) ? (items as string[]) : undefined;
}
