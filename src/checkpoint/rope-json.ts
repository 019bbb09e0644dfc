/** Rotary positions in a config.json: `rope_theta` and `rope_scaling`, or both in `rope_parameters` as newer files have them. */

import type { LlamaConfig, RopeScaling } from "../nn/models/llama-config.ts";
import { ConfigReader, isRecord, type JsonRecord } from "./json-config.ts";

const usualTheta = 10000;
const originalKey = "original_max_position_embeddings";

/** Keys that a rule takes; another one in its section would change what it means. */
const knownKeys: Readonly<Record<RopeScaling["type"] | "default", readonly string[]>> = {
  default: [],
  linear: ["factor"],
  dynamic: ["factor"],
  llama3: ["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"],
  yarn: [
    "factor",
    "original_max_position_embeddings",
    "beta_fast",
    "beta_slow",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "truncate",
  ],
  longrope: ["factor", "original_max_position_embeddings", "short_factor", "long_factor", "attention_factor"],
};

type Sizes = Pick<LlamaConfig, "positions" | "headWidth">;

/** @param read of the whole file, which takes the problems as well */
export function readRope(read: ConfigReader, sizes: Sizes): Pick<LlamaConfig, "ropeTheta" | "ropeScaling"> {
  const { record } = read;
  const name = record.rope_parameters === undefined ? "rope_scaling" : "rope_parameters";
  const section = record[name] ?? {};
  read.check(name, isRecord(section), "an object or null");
  const inner = new ConfigReader(isRecord(section) ? section : {}, `${name}.`);
  const theta = inner.record.rope_theta === undefined ? read : inner;
  const ropeTheta = theta.number("rope_theta", usualTheta, Number.MAX_VALUE, 1);
  // Phi-3's files have it beside the section, and there it is the one that counts.
  const original = (record.original_max_position_embeddings ?? null) === null ? inner : read;
  const ropeScaling = readScaling(inner, sizes, (leftOut) => original.count(originalKey, leftOut));
  read.problems.push(...inner.problems);
  return { ropeTheta, ropeScaling };
}

function readScaling(
  read: ConfigReader,
  sizes: Sizes,
  originalPositions: (leftOut?: number) => number,
): RopeScaling | undefined {
  const { record } = read;
  const key = record.rope_type === undefined && record.type !== undefined ? "type" : "rope_type";
  const type = record[key] ?? "default";
  if (typeof type !== "string" || !Object.hasOwn(knownKeys, type)) {
    read.check(key, false, `one of ${Object.keys(knownKeys).join(", ")}`);
    return undefined;
  }
  checkKeys(read, knownKeys[type as keyof typeof knownKeys]);
  const factor = () => read.number("factor", undefined, 1e6, 1);
  if (type === "linear" || type === "dynamic") return { type, factor: factor() };
  if (type === "llama3") {
    const scaling = {
      type,
      factor: factor(),
      lowFrequencyFactor: read.number("low_freq_factor", undefined, 1e6),
      highFrequencyFactor: read.number("high_freq_factor", undefined, 1e6),
      originalPositions: originalPositions(),
    } as const;
    const isWider = scaling.highFrequencyFactor > scaling.lowFrequencyFactor;
    read.check("high_freq_factor", isWider, `more than low_freq_factor (${scaling.lowFrequencyFactor})`);
    return scaling;
  }
  if (type === "longrope") return readLongRope(read, sizes, originalPositions(sizes.positions));
  return type === "yarn" ? readYarn(read, factor(), originalPositions(sizes.positions)) : undefined;
}

function checkKeys(read: ConfigReader, known: readonly string[]): void {
  const all = ["rope_type", "type", "rope_theta", "partial_rotary_factor", ...known];
  for (const key of Object.keys(read.record))
    read.check(key, all.includes(key), `nothing: this rule has only ${known.join(", ") || "no settings"}`);
  read.only("partial_rotary_factor", 1);
}

/** LongRoPE (Ding et al., 2024), as Phi-3 has it. */
function readLongRope(read: ConfigReader, { positions, headWidth }: Sizes, originalPositions: number): RopeScaling {
  read.check(originalKey, originalPositions > 1, "more than 1");
  const factor = read.number("factor", positions / originalPositions, 1e6);
  const usual = factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(originalPositions));
  const factors = (key: string): readonly number[] => {
    const given = read.record[key];
    const fits =
      Array.isArray(given) && given.length === headWidth / 2 && given.every((by) => Number.isFinite(by) && by > 0);
    read.check(key, fits, `${headWidth / 2} positive numbers, one for each pair of a head`);
    return fits ? given : [];
  };
  return {
    type: "longrope",
    factor,
    originalPositions,
    shortFactors: factors("short_factor"),
    longFactors: factors("long_factor"),
    attentionFactor: read.number("attention_factor", usual, 1e6),
  };
}

function readYarn(read: ConfigReader, factor: number, originalPositions: number): RopeScaling {
  const { record } = read;
  read.only("truncate", true);
  const scaleOf = (by: number): number => (factor <= 1 ? 1 : 0.1 * by * Math.log(factor) + 1);
  const [mscale, mscaleAllDim] = [read.number("mscale", 0, 1e6), read.number("mscale_all_dim", 0, 1e6)];
  const usual = mscale > 0 && mscaleAllDim > 0 ? scaleOf(mscale) / scaleOf(mscaleAllDim) : scaleOf(1);
  return {
    type: "yarn",
    factor,
    originalPositions,
    betaFast: read.number("beta_fast", 32, 1e6),
    betaSlow: read.number("beta_slow", 1, 1e6),
    attentionFactor: (record.attention_factor ?? null) === null ? usual : read.number("attention_factor", usual, 1e6),
  };
}

/** The `rope_scaling` of a config.json. */
export function renderRopeScaling(scaling: RopeScaling): JsonRecord {
  const common = { rope_type: scaling.type, factor: scaling.factor };
  switch (scaling.type) {
    case "linear":
    case "dynamic":
      return common;
    case "llama3":
      return {
        ...common,
        low_freq_factor: scaling.lowFrequencyFactor,
        high_freq_factor: scaling.highFrequencyFactor,
        original_max_position_embeddings: scaling.originalPositions,
      };
    case "yarn":
      return {
        ...common,
        original_max_position_embeddings: scaling.originalPositions,
        beta_fast: scaling.betaFast,
        beta_slow: scaling.betaSlow,
        attention_factor: scaling.attentionFactor,
      };
    case "longrope":
      return {
        ...common,
        original_max_position_embeddings: scaling.originalPositions,
        short_factor: scaling.shortFactors,
        long_factor: scaling.longFactors,
        attention_factor: scaling.attentionFactor,
      };
  }
}
