/** What a run is made of, as plain data, and what of it changed between the run that was saved and the one that goes on. */
import type { ResolvedConfig } from "../config/types.ts";
import type { Json, JsonObject, Manifest } from "./training-manifest.ts";

/** Whether a part of the configuration acts on the numbers of training, apart from the order of sums. */
const actsOnNumbers: Readonly<Record<keyof ResolvedConfig, boolean>> = {
  stage: false,
  offloadOptimizer: false,
  offloadParam: false,
  offloadRatio: false,
  delayedUpdateFrom: true,
  pinMemory: false,
  disk: false,
  precision: true,
  lossScale: true,
  skipsOverflow: true,
  worldSize: true,
  trainBatch: true,
  microBatch: true,
  gradientAccumulation: true,
  gradientClipping: true,
  gradientAccumulationType: true,
  gradientReduction: true,
  optimizer: true,
  parameterGroups: true,
  freeze: true,
  lora: true,
  schedule: true,
  sizes: false,
  overlapComm: false,
  activationCheckpointing: false,
  reporting: false,
  sources: false,
};

/** A resolved configuration as JSON keeps it; where its values came from is left out. */
export function plainConfig(config: ResolvedConfig): JsonObject {
  const kept = Object.keys(actsOnNumbers).filter((key) => key !== "sources") as (keyof ResolvedConfig)[];
  return JSON.parse(JSON.stringify(Object.fromEntries(kept.map((key) => [key, config[key]]))));
}

export interface RunSettings {
  readonly seed: number;
  readonly config: ResolvedConfig;
  /** What is left out of it is not compared. */
  readonly run?: JsonObject;
}

/** What is not as it was, in words: `optimizer.learningRate was 0.001, now 0.0003`. */
export function changedSettings(saved: Manifest, now: RunSettings): string[] {
  const chosen = (config: JsonObject): Json =>
    Object.fromEntries(Object.entries(config).filter(([key]) => actsOnNumbers[key as keyof ResolvedConfig] === true));
  return [
    ...differences("seed", saved.seed, now.seed),
    ...differences("", chosen(saved.config), chosen(plainConfig(now.config))),
    ...Object.entries(now.run ?? {}).flatMap(([key, value]) => differences(key, saved.run[key], value)),
  ];
}

function differences(path: string, was: Json | undefined, is: Json | undefined): string[] {
  if (isObject(was) && isObject(is)) {
    const keys = [...new Set([...Object.keys(was), ...Object.keys(is)])];
    return keys.flatMap((key) => differences(path === "" ? key : `${path}.${key}`, was[key], is[key]));
  }
  const [before, now] = [JSON.stringify(was) ?? "not set", JSON.stringify(is) ?? "not set"];
  return before === now ? [] : [`${path} was ${before}, now ${now}`];
}

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
