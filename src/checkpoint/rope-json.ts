/** Rotary positions in a config.json: `rope_theta` and `rope_scaling`, or both in `rope_parameters` as newer files have them. */

import type { LlamaConfig, RopeScaling } from "../nn/models/llama-config.ts";
import { ConfigReader, isRecord, type JsonRecord } from "./json-config.ts";

const usualTheta = 10000;

/** Published rules whose angles depend on the length of a text below the model's positions too. */
const refused: Readonly<Record<string, string>> = {
  longrope: "a rule of Phi-3's that this version does not have",
};

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
};

/** @param read of the whole file, which takes the problems as well */
export function readRope(read: ConfigReader, positions: number): Pick<LlamaConfig, "ropeTheta" | "ropeScaling"> {
  const { record } = read;
  const name = record.rope_parameters === undefined ? "rope_scaling" : "rope_parameters";
  const section = record[name] ?? {};
  read.check(name, isRecord(section), "an object or null");
  const inner = new ConfigReader(isRecord(section) ? section : {}, `${name}.`);
  const theta = inner.record.rope_theta === undefined ? read : inner;
  const ropeTheta = theta.number("rope_theta", usualTheta, Number.MAX_VALUE, 1);
  const ropeScaling = readScaling(inner, positions);
  read.problems.push(...inner.problems);
  return { ropeTheta, ropeScaling };
}

function readScaling(read: ConfigReader, positions: number): RopeScaling | undefined {
  const { record } = read;
  const key = record.rope_type === undefined && record.type !== undefined ? "type" : "rope_type";
  const type = record[key] ?? "default";
  if (typeof type !== "string" || !Object.hasOwn(knownKeys, type)) {
    const wanted = Object.keys(knownKeys).join(", ");
    read.check(
      key,
      false,
      `one of ${wanted}${Object.hasOwn(refused, String(type)) ? ` (${refused[String(type)]})` : ""}`,
    );
    return undefined;
  }
  checkKeys(read, knownKeys[type as keyof typeof knownKeys]);
  const factor = () => read.number("factor", undefined, 1e6, 1);
  const originalPositions = (leftOut?: number) => read.count("original_max_position_embeddings", leftOut);
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
  return type === "yarn" ? readYarn(read, factor(), originalPositions(positions)) : undefined;
}

function checkKeys(read: ConfigReader, known: readonly string[]): void {
  const all = ["rope_type", "type", "rope_theta", "partial_rotary_factor", ...known];
  for (const key of Object.keys(read.record))
    read.check(key, all.includes(key), `nothing: this rule has only ${known.join(", ") || "no settings"}`);
  read.only("partial_rotary_factor", 1);
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
  }
}
