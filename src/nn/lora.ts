/** LoRA: which layers get an adapter. Names and defaults are PEFT's, so that adapters can be exchanged with it. */

import type { LoraConfig } from "../config/types.ts";
import { UsageError } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";
import { nearest } from "../errors/spelling.ts";
import { Linear } from "./layers.ts";
import { Module } from "./module.ts";

/** As a target: every layer. */
export const allLinear = "all-linear";

/** PEFT's targets of Llama's family and of GPT-2: the first of these that a model has. */
const usualTargets: readonly (readonly string[])[] = [["q_proj", "v_proj"], ["c_attn"]];

/** B A x is multiplied by it. */
export const loraScale = ({ rank, alpha, rankStabilized }: Omit<LoraConfig, "targets">): number =>
  alpha / (rankStabilized ? Math.sqrt(rank) : rank);

/**
 * Freezes a model and gives its target layers adapters, in place. Layers that have one of this rank keep it.
 * @throws UsageError for a target that no layer has
 */
export function addAdapters(model: Module, lora: LoraConfig): void {
  const layers = linearsOf(model);
  const matches = targetsIn([...layers.keys()], lora.targets);
  for (const [name, parameter] of model.namedParameters()) if (!isAdapter(name)) parameter.trainable = false;
  for (const [name, layer] of layers) {
    if (!matches(name)) continue;
    if (layer.rank === undefined)
      layer.adapt({ rank: lora.rank, scale: loraScale(lora), dropout: lora.dropout, name: `${name}.lora` });
    else if (layer.rank !== lora.rank)
      throw new UsageError(
        `layer ${name} has an adapter of rank ${layer.rank} already; wanted ${lora.rank}: make another model`,
      );
  }
}

/**
 * A product of two factors has at most the rank of the layer's smaller width: more is memory and time for nothing. Adapters of others
 * are taken as they are. @throws UsageError
 */
export function checkRank(model: Module, { rank, targets }: Pick<LoraConfig, "rank" | "targets">): void {
  const layers = linearsOf(model);
  const matches = targetsIn([...layers.keys()], targets);
  for (const [name, { weight }] of layers) {
    const width = Math.min(...weight.shape);
    if (rank <= width || !matches(name)) continue;
    throw new UsageError(
      `shunya.lora.rank: found ${rank}; wanted at most ${width}, the smaller width of layer ${name}: a higher rank adds nothing`,
    );
  }
}

/** Gives `to` adapters where `from`, a model of the same shape, has them. */
export function copyAdapters(from: Module, to: Module): void {
  const layers = linearsOf(to);
  for (const [name, { adapter }] of linearsOf(from)) if (adapter) layers.get(name)?.adapt(adapter);
}

/** Whether a parameter is a factor of an adapter. */
export const isAdapter = (name: string): boolean => /\.lora_[AB]\.weight$/.test(name);

/** The last parts of names that stand for the layers, as PEFT keeps them. @throws UsageError */
export function targetNames(model: Module, targets: LoraConfig["targets"]): readonly string[] {
  const names = [...linearsOf(model).keys()];
  if (targets?.includes(allLinear)) return [...new Set(names.map(lastPart))];
  return targets ?? usualIn(names);
}

/** @throws UsageError for a target that fits none of `names` */
function targetsIn(names: readonly string[], given: LoraConfig["targets"]): (name: string) => boolean {
  const targets = given ?? usualIn(names);
  const fits = (name: string, target: string): boolean =>
    target === allLinear || name === target || name.endsWith(`.${target}`);
  const unknown = targets.find((target) => !names.some((name) => fits(name, target)));
  if (unknown !== undefined) {
    const known = [...new Set(names.map(lastPart))];
    const near = nearest(unknown, known);
    const hint = near === undefined ? "" : `; did you mean ${near}?`;
    throw new UsageError(
      printable(
        `shunya.lora.targets: no layer's name ends with ${JSON.stringify(unknown)}${hint} ` +
          `(layers that can have an adapter are ${known.join(", ") || "not in this model"}; "${allLinear}" means all of them)`,
      ),
    );
  }
  return (name) => targets.some((target) => fits(name, target));
}

/** @throws UsageError where the model has none of them */
function usualIn(names: readonly string[]): readonly string[] {
  const known = new Set(names.map(lastPart));
  const usual = usualTargets.find((targets) => targets.every((target) => known.has(target)));
  if (usual) return usual;
  throw new UsageError(
    `shunya.lora.targets: left out, and this model has neither of ${usualTargets.map((t) => t.join(" and ")).join(", ")}; name its layers`,
  );
}

const lastPart = (name: string): string => name.slice(name.lastIndexOf(".") + 1);

/** By name, each once. */
function linearsOf(model: Module): ReadonlyMap<string, Linear> {
  const found = new Map<string, Linear>();
  const seen = new Set<Module>();
  const walk = (module: Module, prefix: string): void => {
    if (seen.has(module)) return;
    seen.add(module);
    for (const [child, value] of module.children()) {
      if (value instanceof Linear) found.set(prefix + child, value);
      else if (value instanceof Module) walk(value, `${prefix}${child}.`);
    }
  };
  walk(model, "");
  return found;
}
