/** What is meant where a value stands in place of a section: DeepSpeed's old booleans, and null for "none". */

import type { ConfigNode, ConfigScalar } from "./json.ts";

export type SectionAnswer =
  | { readonly kind: "leftOut" }
  | { readonly kind: "wrong" }
  | { readonly kind: "value"; readonly path: string; readonly value: ConfigScalar; readonly message: string };

interface Shorthand {
  readonly key: string;
  readonly whenTrue: ConfigScalar;
  readonly whenFalse: ConfigScalar;
}

const enabled: Shorthand = { key: "enabled", whenTrue: true, whenFalse: false };
const device: Shorthand = { key: "device", whenTrue: "cpu", whenFalse: "none" };

const shorthands: Readonly<Record<string, Shorthand>> = {
  zero_optimization: { key: "stage", whenTrue: 1, whenFalse: 0 },
  "zero_optimization.offload_optimizer": device,
  "zero_optimization.offload_param": device,
  fp16: enabled,
  bf16: enabled,
  comms_logger: enabled,
  flops_profiler: enabled,
  csv_monitor: enabled,
  tensorboard: enabled,
};

/** DeepSpeed reads their null, or has it as their default; elsewhere it stops with a Python error. */
const mayBeNull = /^(optimizer|scheduler|zero_optimization\.offload_(optimizer|param)|(optimizer|scheduler)\.params)$/;

/** Sections that do nothing here, so that "off" asks for what happens anyway. */
const mayBeFalse = /^(aio|checkpoint|activation_checkpointing)$/;

export function sectionFor(section: string, node: ConfigNode): SectionAnswer {
  if (node.kind !== "scalar") return { kind: "wrong" };
  if (node.value === null && mayBeNull.test(section)) return { kind: "leftOut" };
  const shorthand = Object.hasOwn(shorthands, section) ? shorthands[section] : undefined;
  if (shorthand === undefined || typeof node.value !== "boolean")
    return { kind: node.value === false && mayBeFalse.test(section) ? "leftOut" : "wrong" };
  const value = node.value ? shorthand.whenTrue : shorthand.whenFalse;
  const written = `{ "${shorthand.key}": ${JSON.stringify(value)} }`;
  return {
    kind: "value",
    path: `${section}.${shorthand.key}`,
    value,
    message: `found ${node.value} in place of an object; read as ${written}: write it so`,
  };
}
